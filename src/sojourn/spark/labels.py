"""Labels: the numbers by which Spark knows shards, chosen so that its tasks get equally many.

Spark gives a row to the task number hash(label) mod tasks. By their own numbers, 32 shards would
fall on two tasks as 12 and 20, and on four as 5, 6, 7 and 14; and a batch waits for its slowest
task. So the label of a shard is a number whose hash, modulo 20160, is the shard's own number. Then
any number of tasks that divides 20160 (1 to 10, 12, 14 to 16, 18, 20, 21, 24, 28, 30, 32, … 64, …)
gets the shards in turn:

    shard                    0   1   2   3   4   5   …
    task, of 2               0   1   0   1   0   1
    task, of 4               0   1   2   3   0   1

Labels are the keys of the state in checkpoints, so the function must not change.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from pyspark.sql import Column

MODULUS = 20_160
_TRIES = 1 << 18  # at once; nearly always enough


@cache
def labels(shards: int) -> tuple[int, ...]:
    """Return the label of each of so many shards: the smallest number with the right hash."""
    label_of_shard = np.full(MODULUS, -1, dtype=np.int64)
    start = 0
    while (label_of_shard[:shards] < 0).any():
        tried = np.arange(start, start + _TRIES, dtype=np.int64)
        values, first = np.unique(spark_hash(tried) % MODULUS, return_index=True)
        new = label_of_shard[values] < 0
        label_of_shard[values[new]] = tried[first[new]]
        start += _TRIES
    return tuple(label_of_shard[:shards].tolist())


def shard_with(label: Column) -> Column:
    """Return the number of the shard with this label."""
    from pyspark.sql import functions as F

    return F.pmod(F.hash(label), F.lit(MODULUS)).cast("int")


def spark_hash(values: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return what Spark's `hash` says of numbers of 64 bits: Murmur3 with the seed 42."""
    words = values.astype(np.uint64)
    mixed = np.full(len(values), 42, dtype=np.uint32)
    for word in (words & np.uint64(0xFFFFFFFF), words >> np.uint64(32)):
        part = word.astype(np.uint32) * np.uint32(0xCC9E2D51)
        mixed ^= _turned(part, 15) * np.uint32(0x1B873593)
        mixed = _turned(mixed, 13) * np.uint32(5) + np.uint32(0xE6546B64)
    mixed ^= np.uint32(8)  # bytes
    mixed = (mixed ^ mixed >> np.uint32(16)) * np.uint32(0x85EBCA6B)
    mixed = (mixed ^ mixed >> np.uint32(13)) * np.uint32(0xC2B2AE35)
    return (mixed ^ mixed >> np.uint32(16)).view(np.int32).astype(np.int64)


def _turned(values: npt.NDArray[np.uint32], bits: int) -> npt.NDArray[np.uint32]:
    return values << np.uint32(bits) | values >> np.uint32(32 - bits)
