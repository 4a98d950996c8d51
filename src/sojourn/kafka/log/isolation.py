"""Isolation: which transactions of a log are not over yet, and which were aborted.

    offset     0   1   2   3   4   5   6   7
    producer   1   2   1   -   1!  2   2!  1        ! ends its transaction: 1 aborts, 2 commits
                   |                       |
    high watermark 8: the transaction that began at 7 goes on, so 7 is the last stable offset
    high watermark 6: 2's is over, but its end at 6 is not committed, so it is 1

A consumer with `read_committed` reads up to the last stable offset: the first offset of a
transaction that goes on, or whose end the high watermark has not passed. With the records it is
told which of them belong to aborted transactions, and leaves those out: of producer 1 those from
offset 0 to 4.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import NamedTuple

# How requests say it.
READ_UNCOMMITTED, READ_COMMITTED = 0, 1


class Aborted(NamedTuple):
    """A transaction that left records and was aborted."""

    producer_id: int
    first_offset: int
    last_offset: int  # where its end stands
    stable_offset: int  # no aborted transaction that ends later begins before this offset


class Over(NamedTuple):
    """A transaction that is over: where it began, and where its end stands."""

    first_offset: int
    last_offset: int


class Isolation:
    """The transactions of one replica's log."""

    __slots__ = ("_aborted", "ongoing", "over")

    def __init__(self) -> None:
        #: Where each producer's transaction began, in the order of their beginnings.
        self.ongoing: dict[int, int] = {}
        #: Those that are over, at least if the high watermark has not passed their end.
        self.over: list[Over] = []
        self._aborted: list[Aborted] = []  # in the order of their ends

    def begin(self, producer_id: int, offset: int) -> None:
        """A producer has written for a transaction; the first time that begins it."""
        self.ongoing.setdefault(producer_id, offset)

    def end(self, producer_id: int, offset: int, is_commit: bool, high_watermark: int) -> None:
        """A transaction's end stands at this offset. One that wrote nothing leaves no trace."""
        first = self.ongoing.pop(producer_id, None)
        if first is None:
            return
        self.over = [one for one in self.over if one.last_offset >= high_watermark]
        self.over.append(Over(first, offset))
        if not is_commit:
            stable = next(iter(self.ongoing.values()), offset + 1)
            self._aborted.append(Aborted(producer_id, first, offset, stable))

    def stable_upto(self, high_watermark: int) -> int:
        """The last stable offset of a log with this high watermark."""
        stable = high_watermark
        if self.over:
            stable = min(
                (one.first_offset for one in self.over if one.last_offset >= high_watermark),
                default=high_watermark,
            )
        for first in self.ongoing.values():
            return min(first, stable, high_watermark)
        return min(stable, high_watermark)

    def aborted(self, offset: int, upto: int) -> Iterator[Aborted]:
        """The aborted transactions with records from `offset` on and before `upto`."""
        start = bisect_left(self._aborted, offset, key=lambda one: one.last_offset)
        for one in self._aborted[start:]:
            if one.first_offset < upto:
                yield one
            if one.stable_offset >= upto:
                return

    def forget_before(self, offset: int) -> None:
        """The log begins here now."""
        if self._aborted and self._aborted[0].last_offset < offset:
            self._aborted = [one for one in self._aborted if one.last_offset >= offset]

    def clear(self) -> None:
        self.ongoing.clear()
        self.over.clear()
        self._aborted.clear()
