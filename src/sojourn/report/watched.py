"""Who was watched for how long, and whether the event came: what the advisor goes by.

Every operation gives one wait. If its condition held, in time or too late, that is the wait until
then. If not, it is for how long that is known, and the operation was last *seen* waiting then:

    outcomes of a batch      condition_ms says when a condition held, also after the deadline; where
                             it is null the condition had not held when the data ended
    outcomes of a stream     nobody looks after the deadline, so an expired operation was seen until
                             then. Those that still wait are missing, unless they are given as
                             pending. Without them, the operations that were submitted too late for
                             their deadline to be in the data are left out, however they ended:
                             else the quick ones among them would be counted and the slow ones not
    pending                  seen until the data ended

Cancelled operations are left out: they neither got their event nor ran out of time.

The data ends with the last moment at which a condition came to hold, or an operation of a stream
ended; the caller may know better. An operation that expires after that has a deadline beyond the
data, and nobody has seen it expire.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sojourn.replay.endings import CANCELLED, EXPIRED
from sojourn.report.bins import Counts, Values, rounded_up
from sojourn.report.stays import Int64s, Stay, Stays
from sojourn.report.sums import Sums
from sojourn.report.tally import Job

Codes = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]

# Beyond so many different waits they are rounded up, first to 14 bits (1 part in 8,192).
MOST_WAITS = 1_000_000
_BITS = (14, 12, 10, 8)

_SCHEMA = pa.schema(
    [("class", pa.int32()), ("wait_ms", pa.uint64()), ("got", pa.int64()), ("unseen", pa.int64())]
)


class DataEnd:
    """Finds when the data ends."""

    def __init__(self, stays: Stays) -> None:
        self._stays = stays
        self.end_ms = stays.until_ms

    def add(self, stay: Stay) -> None:
        if self._stays.until_ms is not None:
            return
        ends_ms = stay.at_ms
        if self._stays.has_condition:
            # A condition that held from the beginning says nothing: the submission may be astray.
            ends_ms = stay.condition_ms[stay.held & (stay.condition_waits_ms > 0)]
        if len(ends_ms):
            last_ms = int(ends_ms.max())
            self.end_ms = last_ms if self.end_ms is None else max(last_ms, self.end_ms)


def columns_for(stays: Stays) -> frozenset[str]:
    """The columns that it takes, of those that there are."""
    columns = {name for name in ("condition_ms", "timeout_ms") if name in stays.names}
    return frozenset({"status", "at_ms", "waited_ms", *columns, *stays.class_columns})


class Watched:
    """A job that counts waits by class, each with how many got their event and how many did not."""

    def __init__(self, stays: Stays, end_ms: int | None, most_waits: int = MOST_WAITS) -> None:
        self._stays = stays
        self._end_ms = end_ms
        self._most_waits = most_waits
        self._sums = self._no_waits()
        self._bits = list(_BITS)
        self.rounded_to_bits: int | None = None
        self.cut_off: dict[int, int] = {}  # by class: submitted too late to be counted
        self.columns = columns_for(stays)

    def add(self, stay: Stay) -> None:
        counted = stay.status != CANCELLED
        if self._stays.has_condition:
            got = stay.held
            waits_ms = np.where(got, stay.condition_waits_ms, self._seen_ms(stay.submitted_ms))
        else:
            got, waits_ms = stay.status != EXPIRED, stay.waited_ms
            if not self._stays.knows_pending:
                is_known = self._ends_in_data(stay)
                self._note_cut_off(stay.class_code[counted & ~is_known])
                counted &= is_known
        self._count(stay.class_code[counted], waits_ms[counted], got[counted])

    def end_pass(self) -> Iterable[Job]:
        for pending in self._stays.pending_batches():
            waits_ms = self._seen_ms(pending.submitted_ms)
            self._count(pending.class_code, waits_ms, np.zeros(len(waits_ms), np.bool_))
        return ()

    def waits(self, codes: Iterable[int]) -> tuple[Values, Counts, Counts]:
        """The waits of these classes, in order, and how many got it and were last seen then."""
        table = self._sums.table()
        mine = np.isin(table["class"].to_numpy(), list(codes))
        waits_ms, places = np.unique(table["wait_ms"].to_numpy()[mine], return_inverse=True)
        got, unseen = (
            np.bincount(places, table[name].to_numpy()[mine], len(waits_ms)).astype(np.int64)
            for name in ("got", "unseen")
        )
        return waits_ms, got, unseen

    def _seen_ms(self, submitted_ms: Int64s) -> Values:
        """For how long these can have been seen waiting: until the data ended."""
        if self._end_ms is None:
            return np.zeros(len(submitted_ms), np.uint64)
        end_ms = np.int64(self._end_ms)
        seen_ms = end_ms.view(np.uint64) - submitted_ms.view(np.uint64)
        return np.where(submitted_ms < end_ms, seen_ms, np.uint64(0))

    def _ends_in_data(self, stay: Stay) -> Mask:
        is_known = stay.timeout_known
        if self._end_ms is None:
            return is_known
        return np.asarray(is_known & (stay.submitted_ms + stay.timeout_ms <= self._end_ms))

    def _note_cut_off(self, codes: Codes) -> None:
        for code, number in zip(*np.unique(codes, return_counts=True), strict=True):
            self.cut_off[int(code)] = self.cut_off.get(int(code), 0) + int(number)

    def _count(self, codes: Codes, waits_ms: Values, got: Mask) -> None:
        if self.rounded_to_bits is not None:
            waits_ms = rounded_up(waits_ms, self.rounded_to_bits)
        self._sums.add([codes, waits_ms, got.astype(np.int64), (~got).astype(np.int64)])
        while len(self._sums) > self._most_waits and self._bits:
            self._round(self._bits.pop(0))

    def _no_waits(self) -> Sums:
        return Sums(_SCHEMA, by=2, at_once=self._most_waits // 8)

    def _round(self, bits: int) -> None:
        table = self._sums.table()
        self.rounded_to_bits = bits
        self._sums = self._no_waits()
        waits_ms = rounded_up(table["wait_ms"].to_numpy(), bits)
        self._sums.add([table["class"], waits_ms, table["got"], table["unseen"]])
        self._sums.table()
