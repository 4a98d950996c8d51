"""Hashing: a 64-bit number for each string of a column, the same on every machine, for ever.

Which shard a key or an id belongs to is written into checkpoints, so the function must not change.
Eight bytes at a time, over all strings at once; the last bytes are filled up with zeros, and the
length tells "a" from "a\\0".
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Hashes = npt.NDArray[np.uint64]

_WORD = 8
_SEED = np.uint64(0x9E3779B97F4A7C15)
_STEP = np.uint64(0xBF58476D1CE4E5B9)
_LAST = np.uint64(0x94D049BB133111EB)
_KEEP = np.array([2 ** (8 * n) - 1 for n in range(_WORD)] + [2**64 - 1], dtype=np.uint64)


def hashes(strings: pa.Array) -> Hashes:
    """Return the hash of each string's UTF-8 bytes; there must be no nulls."""
    count = len(strings)
    if not count:
        return np.zeros(0, dtype=np.uint64)
    wide = pa.types.is_large_string(strings.type) or pa.types.is_large_binary(strings.type)
    _, places, text = strings.buffers()
    bounds = np.frombuffer(places, dtype=np.int64 if wide else np.int32)
    bounds = bounds[strings.offset : strings.offset + count + 1].astype(np.int64)
    first, last = int(bounds[0]), int(bounds[-1])
    padded = np.zeros(last - first + _WORD, dtype=np.uint8)
    if last > first:
        padded[: last - first] = np.frombuffer(text, dtype=np.uint8)[first:last]
    # Every eight bytes in a row as one word, wherever they start.
    words = np.ndarray(shape=(len(padded) - _WORD + 1,), dtype="<u8", buffer=padded, strides=(1,))
    starts = bounds[:-1] - first
    lengths = np.diff(bounds)
    found = mixed(lengths.astype(np.uint64) + _SEED)
    for done in range(0, int(lengths.max()), _WORD):
        left = lengths - done
        if done and left.min() <= 0:
            some = np.flatnonzero(left > 0)
            word = words[starts[some] + done] & _KEEP[np.minimum(left[some], _WORD)]
            found[some] = mixed(found[some] ^ word)
        else:
            word = words[starts + done] & _KEEP[np.clip(left, 0, _WORD)]
            found = mixed(found ^ word)
    return found


def mixed(numbers: Hashes) -> Hashes:
    """Spread numbers over all 64 bits: one bit more or less in changes half of those out."""
    spread = numbers.copy()
    spread ^= spread >> np.uint64(30)
    spread *= _STEP
    spread ^= spread >> np.uint64(27)
    spread *= _LAST
    spread ^= spread >> np.uint64(31)
    return spread


def shard_of(found: Hashes, shards: int) -> npt.NDArray[np.int64]:
    """Return which of so many shards each hash belongs to."""
    return (found % np.uint64(shards)).astype(np.int64)
