"""Isolation: which transactions of a log are open, and which were aborted.

    offset     0   1   2   3   4   5   6   7
    producer   1   2   1   -   1!  2   2!  1        ! ends its transaction: 1 aborts, 2 commits
                   |                       |
    high watermark 8: the transaction that began at 7 is open, so 7 is the last stable offset
    high watermark 6: 2's has ended, but its end at 6 is not replicated, so it is 1

A consumer with `read_committed` reads up to the last stable offset: the first offset of a
transaction that is open, or whose end the high watermark has not passed. With the records it gets
a list of the aborted transactions, whose records it leaves out: of producer 1 those from offset 0
to 4.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import NamedTuple

# The isolation levels, as requests have them.
READ_UNCOMMITTED, READ_COMMITTED = 0, 1


class AbortedTransaction(NamedTuple):
    """A transaction that wrote records and was aborted."""

    producer_id: int
    first_offset: int
    last_offset: int  # where its end stands
    stable_offset: int  # no aborted transaction that ends later begins before this offset


class EndedTransaction(NamedTuple):
    """A transaction that has ended: the offsets of its first record and of its end."""

    first_offset: int
    last_offset: int


class Isolation:
    """The transactions of one replica's log."""

    __slots__ = ("_aborted", "ended", "ongoing")

    def __init__(self) -> None:
        #: Where each producer's transaction began, in the order of their beginnings.
        self.ongoing: dict[int, int] = {}
        #: Those that have ended; some whose end the high watermark has passed may be missing.
        self.ended: list[EndedTransaction] = []
        self._aborted: list[AbortedTransaction] = []  # in the order of their ends

    def begin(self, producer_id: int, offset: int) -> None:
        """Begin the producer's transaction at this offset, unless it is open already."""
        self.ongoing.setdefault(producer_id, offset)

    def end(self, producer_id: int, offset: int, is_commit: bool, high_watermark: int) -> None:
        """End the producer's transaction at this offset; nothing if it wrote no record."""
        first = self.ongoing.pop(producer_id, None)
        if first is None:
            return
        self.ended = [one for one in self.ended if one.last_offset >= high_watermark]
        self.ended.append(EndedTransaction(first, offset))
        if not is_commit:
            stable = next(iter(self.ongoing.values()), offset + 1)
            self._aborted.append(AbortedTransaction(producer_id, first, offset, stable))

    def last_stable_offset(self, high_watermark: int) -> int:
        """The last stable offset of a log with this high watermark."""
        stable = high_watermark
        if self.ended:
            stable = min(
                (one.first_offset for one in self.ended if one.last_offset >= high_watermark),
                default=high_watermark,
            )
        for first in self.ongoing.values():
            return min(first, stable, high_watermark)
        return min(stable, high_watermark)

    def aborted(self, offset: int, upto: int) -> Iterator[AbortedTransaction]:
        """The aborted transactions with records from `offset` on and before `upto`."""
        start = bisect_left(self._aborted, offset, key=lambda one: one.last_offset)
        for one in self._aborted[start:]:
            if one.first_offset < upto:
                yield one
            if one.stable_offset >= upto:
                return

    def remove_before(self, offset: int) -> None:
        """Remove the aborted transactions that ended before the log's new start."""
        if self._aborted and self._aborted[0].last_offset < offset:
            self._aborted = [one for one in self._aborted if one.last_offset >= offset]

    def forget(self, offsets: set[int]) -> None:
        """Forget the aborted transactions whose ends stood there: compaction removed them."""
        self._aborted = [one for one in self._aborted if one.last_offset not in offsets]

    def clear(self) -> None:
        self.ongoing.clear()
        self.ended.clear()
        self._aborted.clear()
