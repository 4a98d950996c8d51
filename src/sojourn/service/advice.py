"""The timeout advisor's verdict on a class, from the sample of its recent ends.

The advisor is `sojourn.report.advisor`, which works on outcomes in tables; it needs numpy and
pyarrow. Here the sample becomes such a table, and the advice a sentence. Two things differ from a
report. The present timeout is known from every operation, not only from those that expired. And a
verdict needs enough operations whose condition held: 100 to speak of 1 in 100, and 1,000 to call a
timeout longer than needed, since that rests on 999 in 1,000.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec

from sojourn.durable.answers import EXPIRED
from sojourn.service.recent import Ended

ENOUGH_FOR_99 = 100
ENOUGH_FOR_999 = 1_000
INSTALL = 'the timeout advisor needs numpy and pyarrow: pip install "sojourn[replay]"'


@dataclass(frozen=True)
class Advice:
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


def advise(sample: Sequence[Ended]) -> Advice:
    """What the timeout of these, which are one or more, should have been."""
    import pyarrow as pa

    from sojourn.report.advisor import Advisor, Present
    from sojourn.report.stays import Stays
    from sojourn.report.tally import run

    table = pa.table(
        {
            "status": pa.array([each.status for each in sample], pa.string()),
            "at_ms": pa.array([each.at_ms for each in sample], pa.int64()),
            "waited_ms": pa.array([each.at_ms - each.submitted_ms for each in sample], pa.int64()),
            "by_key": pa.nulls(len(sample), pa.string()),
            "condition_ms": pa.array([each.condition_ms for each in sample], pa.int64()),
        }
    )
    stays = Stays.of_tables(table)
    advisor = Advisor(stays)
    run(stays, [advisor])
    found = advisor.advice[0]

    timeouts = Counter(each.timeout_ms for each in sample)
    timeout_ms = min(timeouts, key=lambda ms: (-timeouts[ms], ms))
    held_ms = [e.condition_ms - e.submitted_ms for e in sample if e.condition_ms is not None]
    too_short = sum(ms > timeout_ms for ms in held_ms)
    expired = sum(each.status == EXPIRED and each.timeout_ms == timeout_ms for each in sample)
    found = replace(found, present=Present(timeout_ms, expired, len(timeouts), True, too_short))
    for_99_ms = found.for_99.value if found.for_99 else None
    for_999_ms = found.for_999.value if found.for_999 else None
    verdict, says = _judge(
        found.verdict.value, found.counted, found.never, too_short, timeout_ms, len(timeouts),
        for_99_ms, for_999_ms,
    )  # fmt: skip
    return Advice(
        verdict=verdict,
        says=says,
        rests_on=found.counted,
        sampled=len(sample),
        since_ms=min(each.at_ms for each in sample),
        timeout_ms=timeout_ms,
        for_99_ms=for_99_ms if found.counted >= ENOUGH_FOR_99 else None,
        for_999_ms=for_999_ms if found.counted >= ENOUGH_FOR_999 else None,
    )


def _judge(
    verdict: str,
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
    if verdict == "mixed":
        return verdict, (
            f"{count(timeouts)} different timeouts, {duration(timeout_ms)} the commonest; "
            f"99 in 100 need {duration(for_99_ms)}"
        )
    if verdict == "tight":
        return verdict, (
            f"with {duration(timeout_ms)}, {share(too_short, counted)} expired that got what they "
            f"waited for later; 99 in 100 need {duration(for_99_ms)}"
        )
    if verdict == "long" and counted >= ENOUGH_FOR_999:
        return verdict, (
            f"999 in 1,000 need {duration(for_999_ms)}, the timeout is {duration(timeout_ms)}"
        )
    says = f"99 in 100 need {duration(for_99_ms)}, the timeout is {duration(timeout_ms)}"
    if counted < ENOUGH_FOR_999:
        says += f"; whether that is too long shows after {count(ENOUGH_FOR_999)}"
    return "fits", says
