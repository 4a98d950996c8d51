"""One replica's log of one partition: batches in offset order, in memory.

    start_offset        high_watermark          end_offset
         |                    |                     |
    [ batch ][ batch ][ batch ][ batch ][ batch ]   .
      ^ may lie inside a batch: records before it are deleted

Records below the high watermark are on all replicas in sync. Which transactions are committed is
in isolation.py.

The log also keeps the offset at which each leader's epoch began, which replicas compare to find
where they diverge (KIP-101), and the producers' sequences.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import accumulate
from typing import TYPE_CHECKING

from sojourn.kafka.log.batch import CONTROL, first_at_or_after
from sojourn.kafka.log.producer_state import ProducerStates

if TYPE_CHECKING:
    from sojourn.kafka.log.batch import Batch


class Log:
    """Batches of one replica. Batches are shared between replicas; the log is not."""

    def __init__(self) -> None:
        self.start_offset = 0
        self.end_offset = 0
        self.high_watermark = 0
        self.cleaned_offset = 0  # compacted before this offset
        self.producers = ProducerStates()
        self.isolation = self.producers.isolation
        self.epochs: list[tuple[int, int]] = []  # (epoch, the offset it began at)
        self._batches: list[Batch] = []
        self._bases: list[int] = []  # their base offsets
        self._positions: list[int] = []  # bytes before each, since the log began
        self._latest_ms: list[int] = []  # the largest record time up to and with each
        self._end_position = 0

    # Writing.

    def append(self, batch: Batch) -> None:
        """Append the batch; its base offset is the log's end."""
        if not self.epochs or batch.leader_epoch > self.epochs[-1][0]:
            self.begin_epoch(batch.leader_epoch, batch.base_offset)
        self._batches.append(batch)
        self._bases.append(batch.base_offset)
        self._positions.append(self._end_position)
        before_ms = self._latest_ms[-1] if self._latest_ms else batch.max_timestamp
        self._latest_ms.append(max(before_ms, batch.max_timestamp))
        self._end_position += len(batch.data)
        self.end_offset = batch.last_offset + 1
        if batch.producer_id >= 0:
            self.producers.append(batch, self.high_watermark)

    def begin_epoch(self, epoch: int, offset: int) -> None:
        """Begin this leader's epoch at this offset."""
        while self.epochs and (self.epochs[-1][1] >= offset or self.epochs[-1][0] >= epoch):
            self.epochs.pop()
        self.epochs.append((epoch, offset))

    def truncate(self, offset: int) -> None:
        """Remove everything from this offset on, also an epoch that began there."""
        offset = max(offset, self.start_offset)
        if offset < self.end_offset:
            keep = bisect_right(self._bases, offset - 1)
            if keep and self._batches[keep - 1].last_offset >= offset:
                keep -= 1
            if keep < len(self._batches):
                self._end_position = self._positions[keep]
                offset = max(min(offset, self._bases[keep]), self.start_offset)
                self._remove(slice(keep, None))
            self.end_offset = offset
            self.high_watermark = min(self.high_watermark, offset)
            self.cleaned_offset = min(self.cleaned_offset, offset)
            self.producers.rebuild(self._batches, self.high_watermark)
        while self.epochs and self.epochs[-1][1] >= self.end_offset:
            self.epochs.pop()

    def restart(self, offset: int) -> None:
        """Remove everything, and go on from this offset."""
        self._remove(slice(None))
        self.epochs.clear()
        self.producers.rebuild((), offset)
        self.start_offset = self.end_offset = self.high_watermark = self.cleaned_offset = offset

    def advance_start(self, offset: int) -> None:
        """Delete the records before this offset."""
        if offset <= self.start_offset:
            return
        self.start_offset = offset
        self.high_watermark = max(self.high_watermark, offset)
        self.cleaned_offset = max(self.cleaned_offset, offset)
        dead = bisect_right(self._bases, offset) - 1
        if dead >= 0 and self._batches[dead].last_offset < offset:
            dead += 1
        if dead > 0:
            self._remove(slice(dead))
        self.isolation.remove_before(offset)
        while len(self.epochs) > 1 and self.epochs[1][1] <= offset:
            self.epochs.pop(0)

    def replace_before(self, offset: int, batches: list[Batch]) -> None:
        """Put these batches, which are at most as large, in the place of those before `offset`.

        The rest of them is gone for good: compaction has removed it.
        """
        after = bisect_left(self._bases, offset)
        markers = {batch.base_offset for batch in self._batches[:after]}
        markers.difference_update(batch.base_offset for batch in batches)
        self.isolation.forget(markers)
        self._batches[:after] = batches
        self._bases = [batch.base_offset for batch in self._batches]
        sizes = [len(batch.data) for batch in self._batches]
        first = self._end_position - sum(sizes)
        self._positions = list(accumulate(sizes[:-1], initial=first)) if sizes else []
        self._latest_ms = list(accumulate((b.max_timestamp for b in self._batches), max))
        self.cleaned_offset = offset

    def first_retained(self, before_ms: int | None, max_bytes: int | None) -> int:
        """The first offset that retention by age and size keeps; not above the high watermark.

        Age removes the batches whose records, and all before them, are older than `before_ms`.
        """
        keep = 0
        if before_ms is not None:
            keep = bisect_left(self._latest_ms, before_ms)
        if max_bytes is not None:
            keep = max(keep, bisect_left(self._positions, self._end_position - max_bytes))
        first = self._bases[keep] if keep < len(self._bases) else self.end_offset
        return max(self.start_offset, min(first, self.high_watermark))

    def _remove(self, which: slice) -> None:
        for column in (self._batches, self._bases, self._positions, self._latest_ms):
            del column[which]

    # Reading.

    @property
    def last_stable_offset(self) -> int:
        """The first offset whose transaction is open or not replicated; else the high watermark."""
        isolation = self.isolation
        if not isolation.ongoing and not isolation.ended:  # as in most logs
            return self.high_watermark
        return max(isolation.last_stable_offset(self.high_watermark), self.start_offset)

    @property
    def last_epoch(self) -> int:
        """The epoch of the log's end; -1 if it has none yet."""
        return self.epochs[-1][0] if self.epochs else -1

    @property
    def size(self) -> int:
        """Bytes in the log."""
        return self._end_position - (self._positions[0] if self._positions else self._end_position)

    def read(
        self,
        offset: int,
        upto: int,
        max_bytes: int,
        at_least_one: bool,
        partial: bool = False,
    ) -> list[Batch]:
        """The batches from the one with `offset` up to `upto`, as many as fit.

        With `at_least_one` the first one even if it is larger than `max_bytes`; with `partial`
        also the batch of which only a part fits.
        """
        first = self._index(offset)
        end = bisect_right(self._bases, upto - 1)
        if first >= end:
            return []
        last = bisect_right(self._positions, self._positions[first] + max_bytes) - 1
        if last < end:  # where does `last` end?
            ends = self._positions[last] + len(self._batches[last].data)
            if ends - self._positions[first] <= max_bytes:
                last += 1
        last = min(last, end)
        if last == first and at_least_one:
            last = first + 1
        elif partial and first < last < end:
            used = self._positions[last] - self._positions[first]
            if used < max_bytes:
                last += 1
        return self._batches[first:last]

    def data_batches(self, committed: bool) -> Iterator[Batch]:
        """The batches without control batches; `committed`: also without open or aborted ones."""
        upto = self.last_stable_offset if committed else self.end_offset
        aborted = list(self.isolation.aborted(self.start_offset, upto)) if committed else []
        aborted.sort(key=lambda one: -one.first_offset)
        skipped: set[int] = set()  # producers, from where their aborted transactions begin
        for batch in self._batches:
            if batch.base_offset >= upto:
                return
            while aborted and aborted[-1].first_offset <= batch.base_offset:
                skipped.add(aborted.pop().producer_id)
            if batch.attributes & CONTROL:
                skipped.discard(batch.producer_id)
            elif batch.producer_id not in skipped:
                yield batch

    def bytes_between(self, offset: int, upto: int) -> int:
        """How many bytes a read without limits would return."""
        first = self._index(offset)
        end = bisect_right(self._bases, upto - 1)
        if first >= end:
            return 0
        stop = self._positions[end] if end < len(self._positions) else self._end_position
        return stop - self._positions[first]

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """The last epoch that is not above this one, and the offset where it ended.

        (-1, -1) if the log has no such epoch.
        """
        if not self.epochs or epoch > self.epochs[-1][0] or epoch < 0:
            return -1, -1
        if epoch == self.epochs[-1][0]:
            return epoch, self.end_offset
        above = bisect_right(self.epochs, (epoch, 1 << 63))
        last_epoch = self.epochs[above - 1][0] if above else epoch
        return last_epoch, self.epochs[above][1]

    def offset_for_time(self, timestamp_ms: int, upto: int) -> tuple[int, int, int] | None:
        """Offset, time and epoch of the first record not older than this; None if all are."""
        for batch in self._batches:
            if batch.base_offset >= upto:
                break
            if batch.max_timestamp >= timestamp_ms:
                record = first_at_or_after(batch, timestamp_ms, self.start_offset)
                if record is not None:
                    return (*record, batch.leader_epoch)
        return None

    def offset_of_max_timestamp(self) -> tuple[int, int, int] | None:
        """Offset, time and epoch of the record with the largest time; None if there is none."""
        if not self._batches:
            return None
        latest = max(self._batches, key=lambda batch: batch.max_timestamp)  # the first of them
        record = first_at_or_after(latest, latest.max_timestamp, self.start_offset)
        # The batch's time may lie before the log's start; the batch is still the latest.
        offset = record[0] if record is not None else max(latest.base_offset, self.start_offset)
        return offset, latest.max_timestamp, latest.leader_epoch

    def _index(self, offset: int) -> int:
        """The index of the batch with this offset, or of the first after it."""
        index = bisect_right(self._bases, offset) - 1
        if index < 0:
            return 0
        return index if self._batches[index].last_offset >= offset else index + 1
