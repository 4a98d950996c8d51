"""The naive oracle: SEMANTICS §6, sentence by sentence, over plain dictionaries.

It shares no code with the package, and looks at one operation after the other. The only thing it
does for speed is to remember when a key first reached an offset.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

Row = dict[str, Any]

OWN_COLUMNS = ("id", "submitted_ms", "timeout_ms", "requires", "needed")


@dataclass
class Answer:
    """What every engine must say."""

    outcomes: list[Row] = field(default_factory=list)
    pending: list[Row] = field(default_factory=list)
    rejected: list[tuple[str, str, Row]] = field(default_factory=list)  # table, reason, row


def resolve(
    operations: Iterable[Row],
    signals: Iterable[Row],
    cancels: Iterable[Row] = (),
    until_ms: int | None = None,
) -> Answer:
    answer = Answer()
    good_signals = list(_sound(answer, "signals", signals, what_is_wrong_with_signal))
    good_cancels = list(_sound(answer, "cancels", cancels, what_is_wrong_with_cancel))
    good_operations = list(_sound(answer, "operations", operations, what_is_wrong_with_operation))

    # "duplicate id (the first by (submitted_ms, arrival) stays)"
    first: dict[str, int] = {}
    for arrival, operation in enumerate(good_operations):
        other = first.get(operation["id"])
        if other is None or operation["submitted_ms"] < good_operations[other]["submitted_ms"]:
            first[operation["id"]] = arrival

    # "a replay of rows up to a stated time T"
    if until_ms is not None:
        good_signals = [signal for signal in good_signals if signal["at_ms"] <= until_ms]
        good_cancels = [cancel for cancel in good_cancels if cancel["at_ms"] <= until_ms]

    news: dict[str, list[Row]] = {}
    for signal in good_signals:
        news.setdefault(signal["key"], []).append(signal)
    called_off: dict[str, list[int]] = {}
    for cancel in good_cancels:
        called_off.setdefault(cancel["id"], []).append(cancel["at_ms"])

    @cache
    def reached_ms(key: str, offset: int) -> int | None:
        """The first moment at which the key's progress is at least the offset."""
        return min((s["at_ms"] for s in news.get(key, ()) if s["offset"] >= offset), default=None)

    for arrival, operation in enumerate(good_operations):
        if first[operation["id"]] != arrival:
            reason = "id is a duplicate of an earlier operation"
            answer.rejected.append(("operations", reason, operation))
            continue
        submitted_ms = operation["submitted_ms"]
        deadline_ms = submitted_ms + operation["timeout_ms"]
        extras = {name: operation[name] for name in operation if name not in OWN_COLUMNS}

        # "A requirement holds from the first moment t ≥ submitted_ms at which its key's progress
        # ≥ its offset. The operation's condition holds from the needed-th smallest such moment."
        moments = []
        for requirement in operation["requires"]:
            reached = reached_ms(requirement["key"], requirement["offset"])
            if reached is not None:
                moments.append((max(submitted_ms, reached), requirement["key"]))
        moments.sort()
        needed = operation.get("needed")
        if needed is None:
            needed = len(operation["requires"])
        condition_ms = moments[needed - 1][0] if len(moments) >= needed else None
        if condition_ms is not None and until_ms is not None and condition_ms > until_ms:
            condition_ms = None

        cancel_ms = min(
            (x for x in called_off.get(operation["id"], ()) if x >= submitted_ms), default=None
        )
        cancelled_first = cancel_ms is not None and (
            condition_ms is None or cancel_ms < condition_ms
        )

        # "completed at c if c ≤ d (a tie goes to completion) and not cancelled before c;
        # cancelled at x if submitted_ms ≤ x < c and x ≤ d; else expired at d"
        by_key = None
        if condition_ms is not None and condition_ms <= deadline_ms and not cancelled_first:
            status, end_ms = "completed", condition_ms
            by_key = min(key for moment, key in moments if moment == condition_ms)
        elif cancel_ms is not None and cancelled_first and cancel_ms <= deadline_ms:
            status, end_ms = "cancelled", cancel_ms
        elif until_ms is None or deadline_ms <= until_ms:
            status, end_ms = "expired", deadline_ms
        else:
            answer.pending.append(
                {
                    "id": operation["id"],
                    "submitted_ms": submitted_ms,
                    "timeout_ms": operation["timeout_ms"],
                    "requires": operation["requires"],
                    "needed": needed,
                    **extras,
                }
            )
            continue
        answer.outcomes.append(
            {
                "id": operation["id"],
                "status": status,
                "at_ms": end_ms,
                "by_key": by_key,
                "waited_ms": end_ms - submitted_ms,
                "condition_ms": condition_ms,
                "submitted_ms": submitted_ms,
                "timeout_ms": operation["timeout_ms"],
                **extras,
            }
        )
    return answer


def _sound(
    answer: Answer, table: str, rows: Iterable[Row], fault: Callable[[Row], str | None]
) -> Iterator[Row]:
    for row in rows:
        reason = fault(row)
        if reason is None:
            yield row
        else:
            answer.rejected.append((table, reason, row))


def what_is_wrong_with_operation(row: Row) -> str | None:
    if row["id"] is None:
        return "id is null"
    if wrong := _wrong_number(row, "submitted_ms") or _wrong_number(row, "timeout_ms"):
        return wrong
    if row["timeout_ms"] < 0:
        return "timeout_ms is negative"
    requires = row["requires"]
    if not requires:
        return "requires is null or empty"
    if any(item is None or item["key"] is None for item in requires):
        return "a required key is null"
    if any(item["offset"] is None for item in requires):
        return "a required offset is null"
    if not all(_fits(item["offset"]) for item in requires):
        return "a required offset is outside 64 bits"
    needed = row.get("needed")
    if needed is not None and needed < 1:
        return "needed is below 1"
    if needed is not None and needed > len(requires):
        return "needed is above the number of requirements"
    if not _fits(row["submitted_ms"] + row["timeout_ms"]):
        return "the deadline, submitted_ms + timeout_ms, is outside 64 bits"
    return None


def what_is_wrong_with_signal(row: Row) -> str | None:
    if row["key"] is None:
        return "key is null"
    return _wrong_number(row, "offset") or _wrong_number(row, "at_ms")


def what_is_wrong_with_cancel(row: Row) -> str | None:
    if row["id"] is None:
        return "id is null"
    return _wrong_number(row, "at_ms")


def _wrong_number(row: Row, name: str) -> str | None:
    if row[name] is None:
        return f"{name} is null"
    return None if _fits(row[name]) else f"{name} is outside 64 bits"


def _fits(number: int) -> bool:
    return -(2**63) <= number < 2**63
