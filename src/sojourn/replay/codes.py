# cython: cdivision=True
"""Codes: small numbers in place of strings, equal where the strings are equal.

A string's first 16 bytes are two words, padded with zeros. Most keys and ids are no longer than
that, and are compared by these words and their length alone, without reading the text.

    places     upper half of the hash | code + 1       a word each, at most half of them in use;
                                          |            the hash's first bits say where to look
    records    first word | second word | length | row where the string was first seen

Strings are looked up a block at a time, in rounds. Each round prefetches the memory that the next
one reads. With many different strings most of the time is spent waiting for memory; this way the
waits overlap.
"""

from __future__ import annotations

try:
    import cython
except ImportError:  # pragma: no cover - depends on what is installed
    from sojourn import _cython as cython

import sys

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sojourn.replay.arrays import text_parts, view
from sojourn.replay.threads import in_parts

if cython.compiled:
    from cython.cimports.libc.string import memcmp, memcpy
    from cython.cimports.sojourn.replay._prefetch import prefetch

_BLOCK = 64
_RECORD = 4  # words
_ALL = 2**64 - 1
_HIGH = 2**64 - 2**32
_LOW = 2**32 - 1
# Odd numbers with an even mix of bits.
_MIX_1 = 0x9E3779B97F4A7C15
_MIX_2 = 0xBF58476D1CE4E5B9
_MIX_3 = 0x94D049BB133111EB
_ONE = 1
_IS_LITTLE = sys.byteorder == "little"


class Codes:
    """Numbers for the strings of one array, from 0 up in the order of first sight.

    `codes` has them, `count` says how many there are. Strings must not be null.
    """

    __slots__ = ("_bits", "_places", "_records", "_starts", "_text", "codes", "count")

    def __init__(self, strings: pa.Array) -> None:
        self._starts, self._text = text_parts(strings)
        self._bits = 10
        self._places = view(np.zeros(2**self._bits, dtype=np.uint64))
        self._records = view(np.empty(_RECORD * 2**self._bits // 2, dtype=np.uint64))
        self.codes: npt.NDArray[np.int32] = np.empty(len(strings), dtype=np.int32)
        scratch = view(np.empty(3 * _BLOCK, dtype=np.uint64))
        done_and_count = view(np.zeros(2, dtype=np.int64))
        while done_and_count[0] < len(strings):
            if done_and_count[1]:
                self._grow()
            _learn(
                self._places, self._bits, self._records, self._starts, self._text,
                view(self.codes), scratch, done_and_count,
            )  # fmt: skip
        self.count = done_and_count[1]

    def find(self, strings: pa.Array, threads: int | None = None) -> npt.NDArray[np.int32]:
        """Return the code of each string, -1 for a string not seen."""
        codes = np.empty(len(strings), dtype=np.int32)
        starts, text = text_parts(strings)

        def part(begin: int, end: int) -> None:
            scratch = view(np.empty(3 * _BLOCK, dtype=np.uint64))
            _find(
                self._places, self._bits, self._records, self._starts, self._text,
                starts, text, view(codes), scratch, begin, end,
            )  # fmt: skip

        in_parts(part, len(strings), threads)
        return codes

    def _grow(self) -> None:
        self._bits += 2 if self._bits < 16 else 1
        places = view(np.zeros(2**self._bits, dtype=np.uint64))
        _move(self._places, places, self._bits)
        self._places = places
        records = np.empty(_RECORD * 2**self._bits // 2, dtype=np.uint64)
        records[: len(self._records)] = self._records
        self._records = view(records)


def _word(text: memoryview, start: int, length: int) -> int:
    """The first 8 bytes of a string as a word, padded with zeros."""
    if length <= 0:
        return 0
    if cython.compiled:
        word = 0
        if length >= 8 or (_IS_LITTLE and start + 8 <= text.shape[0]):
            memcpy(cython.address(word), cython.address(text[start]), 8)
            return word if length >= 8 else word & ((_ONE << (8 * length)) - 1)
        memcpy(cython.address(word), cython.address(text[start]), length)
        return word
    else:  # noqa: RET505 - compiled, the rest is unreachable
        return int.from_bytes(text[start : start + min(length, 8)], "little")


def _hashed(text: memoryview, start: int, length: int, first: int, second: int) -> int:
    """The hash of a string whose first two words these are."""
    mix = ((length * _MIX_3) & _ALL) ^ first
    mix = (mix * _MIX_1) & _ALL
    mix ^= mix >> 32
    mix = ((mix ^ second) * _MIX_2) & _ALL
    mix ^= mix >> 29
    done = 16
    while done < length:
        mix = ((mix ^ _word(text, start + done, length - done)) * _MIX_1) & _ALL
        mix ^= mix >> 32
        done += 8
    mix = (mix * _MIX_3) & _ALL
    return mix ^ (mix >> 32)


def _hash_block(
    starts: memoryview,
    text: memoryview,
    scratch: memoryview,
    places: memoryview,
    bits: int,
    begin: int,
    end: int,
) -> None:
    """Work out words and hashes of a block of strings, and ask for their places."""
    for n in range(end - begin):
        start = starts[begin + n]
        length = starts[begin + n + 1] - start
        first = _word(text, start, length)
        second = _word(text, start + 8, length - 8)
        mix = _hashed(text, start, length, first, second)
        scratch[3 * n] = first
        scratch[3 * n + 1] = second
        scratch[3 * n + 2] = mix
        if cython.compiled:
            prefetch(cython.address(places[mix >> (64 - bits)]))


def _is_same(
    records: memoryview,
    code: int,
    coded_starts: memoryview,
    coded_text: memoryview,
    first: int,
    second: int,
    text: memoryview,
    start: int,
    length: int,
) -> bool:
    """Say whether the string of the code is this one."""
    record = code * _RECORD
    if records[record] != first or records[record + 1] != second or records[record + 2] != length:
        return False
    if length <= 16:
        return True
    other = coded_starts[records[record + 3]]
    if cython.compiled:
        return memcmp(cython.address(coded_text[other]), cython.address(text[start]), length) == 0
    else:  # noqa: RET505
        return bool(coded_text[other : other + length] == text[start : start + length])


def _learn(
    places: memoryview,
    bits: int,
    records: memoryview,
    starts: memoryview,
    text: memoryview,
    codes: memoryview,
    scratch: memoryview,
    done_and_count: memoryview,
) -> None:
    """Give codes to strings, as far as the table has room for another block."""
    with cython.nogil:
        done = done_and_count[0]
        count = done_and_count[1]
        total = len(codes)
        wrap = len(places) - 1
        while done < total and 2 * (count + _BLOCK) <= len(places):
            end = done + _BLOCK if done + _BLOCK < total else total
            _hash_block(starts, text, scratch, places, bits, done, end)
            for n in range(end - done):
                first = scratch[3 * n]
                second = scratch[3 * n + 1]
                mix = scratch[3 * n + 2]
                start = starts[done + n]
                length = starts[done + n + 1] - start
                at = mix >> (64 - bits)
                code = count
                while places[at]:
                    if (places[at] ^ mix) & _HIGH == 0:
                        code = (places[at] & _LOW) - 1
                        if _is_same(
                            records, code, starts, text, first, second, text, start, length
                        ):
                            break
                        code = count
                    at = (at + 1) & wrap
                if code == count:
                    places[at] = (mix & _HIGH) | (count + 1)
                    records[_RECORD * count] = first
                    records[_RECORD * count + 1] = second
                    records[_RECORD * count + 2] = length
                    records[_RECORD * count + 3] = done + n
                    count += 1
                codes[done + n] = code
            done = end
        done_and_count[0] = done
        done_and_count[1] = count


def _move(places: memoryview, larger: memoryview, bits: int) -> None:
    """Put what is in one table into a larger one."""
    with cython.nogil:
        wrap = len(larger) - 1
        for n in range(len(places)):
            if places[n]:
                at = places[n] >> (64 - bits)
                while larger[at]:
                    at = (at + 1) & wrap
                larger[at] = places[n]


def _find(
    places: memoryview,
    bits: int,
    records: memoryview,
    coded_starts: memoryview,
    coded_text: memoryview,
    starts: memoryview,
    text: memoryview,
    codes: memoryview,
    scratch: memoryview,
    begin: int,
    end: int,
) -> None:
    with cython.nogil:
        wrap = len(places) - 1
        while begin < end:
            stop = begin + _BLOCK if begin + _BLOCK < end else end
            _hash_block(starts, text, scratch, places, bits, begin, stop)
            if cython.compiled:
                for n in range(stop - begin):
                    code = (places[scratch[3 * n + 2] >> (64 - bits)] & _LOW) - 1
                    if code >= 0:
                        prefetch(cython.address(records[_RECORD * code]))
            for n in range(stop - begin):
                mix = scratch[3 * n + 2]
                start = starts[begin + n]
                length = starts[begin + n + 1] - start
                at = mix >> (64 - bits)
                codes[begin + n] = -1
                while places[at]:
                    if (places[at] ^ mix) & _HIGH == 0:
                        code = (places[at] & _LOW) - 1
                        if _is_same(
                            records, code, coded_starts, coded_text,
                            scratch[3 * n], scratch[3 * n + 1], text, start, length,
                        ):  # fmt: skip
                            codes[begin + n] = code
                            break
                    at = (at + 1) & wrap
            begin = stop
