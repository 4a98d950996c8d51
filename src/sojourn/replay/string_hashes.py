# cython: cdivision=True
"""String hashes: a 64-bit number for each string of a column, the same on every machine, for ever.

Which shard a key or an id belongs to is written into checkpoints, so the function must not change.

    hash = mix(length + seed), then for every eight bytes: hash = mix(hash ^ word)

The last word is padded with zeros, and the length distinguishes "a" from "a\\0"; the empty string
has one word too. Another seed gives another function: name tables draw theirs at random, so that
nobody can prepare names that collide.
"""

from __future__ import annotations

try:
    import cython
except ImportError:  # pragma: no cover - depends on what is installed
    from sojourn import _cython as cython

import sys
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sojourn.replay.arrays import text_parts, view
from sojourn.replay.threads import in_parts

if cython.compiled:
    from cython.cimports.libc.string import memcpy

Hashes = npt.NDArray[np.uint64]

SEED = 0x9E3779B97F4A7C15
_STEP = 0xBF58476D1CE4E5B9
_LAST = 0x94D049BB133111EB
_ALL = 2**64 - 1
_ONE = 1
_KEEP = np.array([2 ** (8 * n) - 1 for n in range(8)] + [2**64 - 1], dtype=np.uint64)
_IN_LOOPS = cython.compiled and sys.byteorder == "little"


def hashes(strings: pa.Array, seed: int = SEED, threads: int | None = 1) -> Hashes:
    """Return the hash of each string's bytes; there must be no nulls."""
    starts, data = text_parts(strings)
    return hashes_of(starts, data, len(strings), seed, threads)


def hashes_of(
    starts: Any, data: Any, count: int, seed: int = SEED, threads: int | None = 1
) -> Hashes:
    """Return the hashes of strings given as where each starts, and the bytes of all."""
    if not _IN_LOOPS:
        return _with_numpy(np.asarray(starts), np.asarray(data), count, seed)
    numbers = np.empty(count, dtype=np.uint64)
    in_parts(
        lambda begin, end: _hash(starts, data, view(numbers), seed, begin, end), count, threads
    )
    return numbers


def mixed(numbers: Hashes, others: Any = None) -> Hashes:
    """Spread numbers over all 64 bits: one bit more or less in changes half of those out.

    `others`: first combined with them, each with each, by exclusive or.
    """
    if others is not None:
        numbers = numbers ^ others.view(np.uint64)
    spread = numbers.copy()
    if _IN_LOOPS:
        _mix_all(view(spread))
        return spread
    spread ^= spread >> np.uint64(30)
    spread *= np.uint64(_STEP)
    spread ^= spread >> np.uint64(27)
    spread *= np.uint64(_LAST)
    spread ^= spread >> np.uint64(31)
    return spread


def shard_of(hashes: Hashes, shards: int) -> npt.NDArray[np.int64]:
    """Return which of so many shards each hash belongs to."""
    return (hashes % np.uint64(shards)).astype(np.int64)


def hash_one(data: Any, start: int, length: int, seed: int) -> int:
    """Return the hash of one string."""
    mix = _mix((length + seed) & _ALL)
    while True:
        mix = _mix(mix ^ _word(data, start, length))
        start += 8
        length -= 8
        if length <= 0:
            break
    return mix


def _with_numpy(bounds: Any, data: Any, count: int, seed: int) -> Hashes:
    """Eight bytes at a time, over all strings at once."""
    if not count:
        return np.zeros(0, dtype=np.uint64)
    first, last = int(bounds[0]), int(bounds[count])
    padded = np.zeros(last - first + 8, dtype=np.uint8)
    padded[: last - first] = data[first:last]
    # Every eight bytes in a row as one word, wherever they start.
    words = np.ndarray(shape=(len(padded) - 7,), dtype="<u8", buffer=padded, strides=(1,))
    starts = bounds[:count] - first
    lengths = np.diff(bounds)
    numbers = mixed(lengths.astype(np.uint64) + np.uint64(seed))
    numbers = mixed(numbers, words[starts] & _KEEP[np.clip(lengths, 0, 8)])
    for done in range(8, int(lengths.max()), 8):
        some = np.flatnonzero(lengths > done)
        word = words[starts[some] + done] & _KEEP[np.minimum(lengths[some] - done, 8)]
        numbers[some] = mixed(numbers[some], word)
    return numbers


def _hash(
    starts: memoryview, data: memoryview, numbers: memoryview, seed: int, begin: int, end: int
) -> None:
    with cython.nogil:
        for n in range(begin, end):
            numbers[n] = hash_one(data, starts[n], starts[n + 1] - starts[n], seed)


def _mix_all(numbers: memoryview) -> None:
    with cython.nogil:
        for n in range(len(numbers)):
            numbers[n] = _mix(numbers[n])


def _mix(word: int) -> int:
    word ^= word >> 30
    word = (word * _STEP) & _ALL
    word ^= word >> 27
    word = (word * _LAST) & _ALL
    return word ^ (word >> 31)


def _word(data: memoryview, start: int, length: int) -> int:
    """The first 8 bytes of a string as a word, padded with zeros."""
    if length <= 0:
        return 0
    if cython.compiled:
        word = 0
        if length >= 8 or start + 8 <= data.shape[0]:
            memcpy(cython.address(word), cython.address(data[start]), 8)
            return word if length >= 8 else word & ((_ONE << (8 * length)) - 1)
        memcpy(cython.address(word), cython.address(data[start]), length)
        return word
    else:  # noqa: RET505 - compiled, the rest is unreachable
        return int.from_bytes(data[start : start + min(length, 8)], "little")
