"""Findings: what a verification has compared, and what differs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa

WAITING = "waiting"
OUTCOME = ("status", "at_ms", "by_key", "waited_ms")
TOLD_COLUMNS = ["id", *OUTCOME, "number", "submitted_ms"]

Step = Callable[[str], None]


class Kind:
    """How a difference shows."""

    CHANGED = "told otherwise"
    NEVER_SUBMITTED = "told, and never submitted"
    STILL_WAITING = "told, and still waiting"
    NOT_TOLD = "ended, and not told"
    TOLD_TWICE = "told twice"
    REJECTED = "an invalid row"
    FILE = "a file that is not as recorded"
    DATA = "not as in the data file"


class Reason:
    """Why an outcome is neither proven nor different."""

    BEFORE = "submitted before the history begins"
    DEPENDS = "depends on progress made before the history begins"
    NOT_RECORDED = "told after the end of the history"
    TOLD_BEFORE = "told before the history begins"


class Difference(NamedTuple):
    """One thing that is not as it should be, from both sides."""

    kind: str
    name: str  # an id, a file, a row
    told: dict[str, Any] | str | None
    replayed: dict[str, Any] | str | None


@dataclass
class Findings:
    """What was compared, and what differs: the first few, and how many of each kind."""

    show: int
    proven: int = 0
    waiting: int = 0
    unproven: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    differences: list[Difference] = field(default_factory=list)

    def add(self, count: int, differences: Iterator[Difference], kind: str) -> None:
        """So many of a kind; of the iterator only as many are taken as are shown."""
        if count:
            self.counts[kind] += count
            while len(self.differences) < self.show:
                difference = next(differences, None)
                if difference is None:
                    break
                self.differences.append(difference)

    def add_one(self, difference: Difference) -> None:
        self.add(1, iter((difference,)), difference.kind)


def difference(
    kind: str, name: str, told: dict[str, Any] | None, replayed: dict[str, Any] | None
) -> Difference:
    """An operation that differs, with what is known of its end from both sides."""

    def end(row: dict[str, Any] | None) -> dict[str, Any] | None:
        return None if row is None else {column: row[column] for column in OUTCOME}

    return Difference(kind, name, end(told), end(replayed))


def add_rejected(findings: Findings, count: int, rejected: pa.Table) -> None:
    """Rows that the replay would not take: a recorder writes none of these."""
    rejected = rejected.slice(0, findings.show)
    each = zip(rejected["row"].to_pylist(), rejected["reason"].to_pylist(), strict=True)
    differences = (Difference(Kind.REJECTED, text, None, reason) for text, reason in each)
    findings.add(count, differences, Kind.REJECTED)
