"""The timeout advisor's verdict on a class, from the sample of its recent ends.

It goes by the operations whose condition held, in time or later, and what they waited for that. It
needs enough of them: 100 for a p99, and 1,000 to call a timeout longer than needed, since that
rests on the p99.9. A report over recorded outcomes knows more: how long the data
goes on, and so how sure its numbers are (`sojourn.report.advisor`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec

from sojourn.durable.answers import EXPIRED
from sojourn.service.recent import Ended

ENOUGH_FOR_99 = 100
ENOUGH_FOR_999 = 1_000
INSTALL = 'the timeout advisor needs numpy and pyarrow: pip install "sojourn[replay]"'


@dataclass(frozen=True)
class ClassAdvice:
    """A verdict: "tight", "fits", "long", "mixed" or "unknown", and what it rests on."""

    verdict: str
    says: str
    rests_on: int  # operations of the sample whose condition held, in time or later
    sampled: int
    since_ms: int  # the first end of the sample
    timeout_ms: int | None  # the one in use, or the commonest
    for_99_ms: int | None
    for_999_ms: int | None


def is_installed() -> bool:
    """Whether the advisor can work here."""
    return all(find_spec(name) is not None for name in ("numpy", "pyarrow"))


def advise(sample: Sequence[Ended]) -> ClassAdvice:
    """What the timeout of these, which are one or more, should have been."""
    timeouts = Counter(each.timeout_ms for each in sample)
    timeout_ms = min(timeouts, key=lambda ms: (-timeouts[ms], ms))
    held_ms = sorted(e.condition_ms - e.submitted_ms for e in sample if e.condition_ms is not None)
    too_short = sum(ms > timeout_ms for ms in held_ms)
    never = sum(each.status == EXPIRED and each.condition_ms is None for each in sample)
    for_99_ms = for_999_ms = None
    if held_ms:
        for_99_ms = held_ms[-(-len(held_ms) * 99 // 100) - 1]
        for_999_ms = held_ms[-(-len(held_ms) * 999 // 1_000) - 1]
    verdict, says = _judge(
        len(held_ms), never, too_short, timeout_ms, len(timeouts), for_99_ms, for_999_ms
    )
    return ClassAdvice(
        verdict=verdict,
        says=says,
        rests_on=len(held_ms),
        sampled=len(sample),
        since_ms=min(each.at_ms for each in sample),
        timeout_ms=timeout_ms,
        for_99_ms=for_99_ms if len(held_ms) >= ENOUGH_FOR_99 else None,
        for_999_ms=for_999_ms if len(held_ms) >= ENOUGH_FOR_999 else None,
    )


def _judge(
    counted: int,
    never: int,
    too_short: int,
    timeout_ms: int,
    timeouts: int,
    for_99_ms: int | None,
    for_999_ms: int | None,
) -> tuple[str, str]:
    """The verdict that so much data allows, and the reason."""
    from sojourn.report.units import count, duration, share

    if for_99_ms is None or for_999_ms is None or counted < ENOUGH_FOR_99:
        vain = f"; {count(never)} expired, and what they waited for has not come" if never else ""
        return "unknown", (
            f"too little to go by: {count(counted)} got what they waited for, "
            f"{ENOUGH_FOR_99} are needed{vain}"
        )
    if timeouts > 1:
        return "mixed", (
            f"{count(timeouts)} different timeouts, {duration(timeout_ms)} the commonest; "
            f"p99 {duration(for_99_ms)}"
        )
    if timeout_ms < for_99_ms:
        return "tight", (
            f"with {duration(timeout_ms)}, {share(too_short, counted)} expired that got what they "
            f"waited for later; p99 {duration(for_99_ms)}"
        )
    if timeout_ms >= 2 * for_999_ms and counted >= ENOUGH_FOR_999:
        return "long", (f"p99.9 {duration(for_999_ms)}, the timeout is {duration(timeout_ms)}")
    says = f"p99 {duration(for_99_ms)}, the timeout is {duration(timeout_ms)}"
    if counted < ENOUGH_FOR_999:
        says += f"; whether that is too long shows after {count(ENOUGH_FOR_999)}"
    return "fits", says
