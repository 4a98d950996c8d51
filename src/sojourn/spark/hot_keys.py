"""The hot keys: a key with a large share of all rows is cut into slices by offset.

A task has all rows of its keys. If one key has half of all rows, one task has half of the
work. So the rows of such a key are cut into slices, each about as large as a partition should be:

    offset      0 ......... 4711 ......... 9120 .........      the cuts: 4711, 9120
    slice            0              1              2

A requirement is in the slice of its offset. Signals that fulfil it are those of its own slice
with an offset not below its own, and all of the later slices. Of those only the earliest matters.
So a task that sends signals to slice 2 also sends the earliest of them to slices 0 and 1, as a
signal with the last offset of that slice. It fulfils all requirements of that slice, and none of a
later slice in the same task. So the receiving tasks need not know of slices.

A sample shows which keys are hot, and where to cut them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sojourn.replay import rows, schemas
from sojourn.replay.arrays import Integers
from sojourn.replay.rows import CleanEvents
from sojourn.replay.string_hashes import Hashes, hashes
from sojourn.spark import references
from sojourn.spark.ddl import ddl

_SAMPLE = pa.schema([("key", pa.string()), ("offset", pa.int64()), ("weight", pa.float64())])
SAMPLE_SCHEMA = ddl(_SAMPLE)
# So many rows of each input partition are kept for the sample.
_KEPT_ROWS = 1_000
# With fewer rows a sample says too little, and the job is small anyway.
_LEAST_ROWS = 500
_LEAST_ROWS_OF_KEY = 30


@dataclass(frozen=True, slots=True)
class HotKeys:
    """The hot keys by hash, each with its cuts: n of them make n + 1 slices.

    Two keys with one hash are cut in the same places, which does no harm.
    """

    cuts: dict[int, Integers] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.cuts)

    def partitions(self, words: Hashes, offsets: Integers, count: int) -> npt.NDArray[np.uint16]:
        """Return the partition of each row, given the hash of its key."""
        partitions = references.partitions(words, count)
        for word, cuts in self.cuts.items():
            hot = np.flatnonzero(words == np.uint64(word))
            if len(hot):
                slices = np.searchsorted(cuts, offsets[hot], side="right")
                partitions[hot] = self._partition_of_slices(word, count)[slices]
        return partitions

    def later(
        self,
        words: Hashes,
        signals: CleanEvents,
        count: int,
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Tell each slice the earliest of these signals among later slices: to which partition,
        and the signal."""
        for word, cuts in self.cuts.items():
            hot = np.flatnonzero(words == np.uint64(word))
            if not len(hot):
                continue
            partition_of_slices = self._partition_of_slices(word, count)
            names = signals.names.take(pa.array(hot)).dictionary_encode()
            for code, name in enumerate(names.dictionary):
                of_key = hot[names.indices.to_numpy() == code]
                slices = np.searchsorted(cuts, signals.offsets[of_key], side="right")
                earliest = np.full(len(cuts) + 1, rows.MOST, dtype=np.int64)
                has_signals = np.zeros(len(cuts) + 1, dtype=np.bool_)
                np.minimum.at(earliest, slices, signals.at_ms[of_key])
                has_signals[slices] = True
                earliest = np.minimum.accumulate(earliest[::-1])[::-1]
                has_signals = np.logical_or.accumulate(has_signals[::-1])[::-1]
                for n in np.flatnonzero(has_signals[1:]).tolist():
                    last = max(int(cuts[n]) - 1, rows.LEAST)  # offset of slice n
                    signal = [[name.as_py()], [last], [int(earliest[n + 1])]]
                    batch = pa.record_batch(signal, schema=schemas.SIGNALS)
                    yield int(partition_of_slices[n]), batch

    def _partition_of_slices(self, word: int, count: int) -> npt.NDArray[np.uint16]:
        """Slices go to partitions side by side, the first to where the key would go."""
        home = int(references.partitions(np.array([word], dtype=np.uint64), count)[0])
        return ((home + np.arange(len(self.cuts[word]) + 1)) % count).astype(np.uint16)


def keep_some(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Keep a few rows of a partition (key, offset), and say for how many each stands.

    The rows are a sample already; this bounds what goes to the driver.
    """
    random = np.random.default_rng(0)
    table = pa.Table.from_batches(list(batches), _SAMPLE.remove(2))
    table = table.drop_null()
    row_count = len(table)
    if row_count > _KEPT_ROWS:
        table = table.take(pa.array(np.sort(random.choice(row_count, _KEPT_ROWS, replace=False))))
    weights = np.full(len(table), row_count / max(len(table), 1))
    table = table.append_column(_SAMPLE.field("weight"), pa.array(weights))
    yield from table.combine_chunks().to_batches()


def hot_keys(sample: pa.Table, partitions: int) -> HotKeys:
    """Return the keys that have more than half of what a partition should have.

    Each is cut so that a slice has about half of it.
    """
    sample = sample.combine_chunks()
    if len(sample) < _LEAST_ROWS or partitions < 2:
        return HotKeys()
    names = sample["key"].chunk(0).dictionary_encode()
    codes = names.indices.to_numpy()
    offsets = sample["offset"].to_numpy()
    weights = sample["weight"].to_numpy()
    of_key = np.bincount(codes, weights)
    rows_of_key = np.bincount(codes)
    share = of_key / of_key.sum() * partitions
    cuts = {}
    for code in np.flatnonzero((share > 0.5) & (rows_of_key >= _LEAST_ROWS_OF_KEY)).tolist():
        slices = min(partitions, int(np.ceil(2 * share[code])), int(rows_of_key[code]) // 10)
        mine = codes == code
        order = np.argsort(offsets[mine], kind="stable")
        heaped = np.cumsum(weights[mine][order])
        at = np.searchsorted(heaped, heaped[-1] * np.arange(1, slices) / slices)
        where = np.unique(offsets[mine][order][at])
        if len(where):
            word = hashes(names.dictionary.slice(code, 1))[0]
            cuts[int(word)] = where
    return HotKeys(cuts)
