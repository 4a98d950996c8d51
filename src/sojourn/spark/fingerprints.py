# cython: cdivision=True
"""The fingerprints: which partition a key or an id belongs to, and which row is meant.

A key or id goes to the partition that its fingerprint says: the same on every machine and in both
builds. That two keys may share one does no harm, they only share a partition.

A requirement is sent to where its key is, and the moment found there has to find its way back to
its operation. It could carry the number of its row; but a partition that Spark computes a second
time, because a machine was lost, may have its rows in another order, and the numbers would lie.
So it carries a fingerprint of what the operation says, 96 bits of it, and two rows that say the
same are the same operation:

    reference, 64 bits   | 20 bits of the id: where to go | 44 bits of everything |
    check, 32 bits       | of everything, by another formula |

If two operations that differ had one fingerprint, `places` would notice and raise; with a thousand
million operations the chance is about 1 in 10¹¹.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sojourn.errors import SojournError

Words = npt.NDArray[np.uint64]
Checks = npt.NDArray[np.uint32]
Integers = npt.NDArray[np.int64]

# Odd numbers without a pattern in their bits: the first is 2⁶⁴ over the golden ratio.
_ALL = 0xFFFFFFFFFFFFFFFF
_ONE = 0x9E3779B97F4A7C15
_TWO = 0xC2B2AE3D27D4EB4F
_ROUTE = 0xFFFFF00000000000


class FingerprintsMeet(SojournError, RuntimeError):
    """Two different operations have the same fingerprint: rename the id of one of them."""


def of_texts(texts: pa.Array) -> tuple[Words, Words]:
    """Return two fingerprints of each string, by different formulas; there are no nulls."""
    wide = pa.types.is_large_string(texts.type)
    _, ends, data = texts.buffers()
    first = np.empty(len(texts), dtype=np.uint64)
    second = np.empty(len(texts), dtype=np.uint64)
    if len(texts):
        places = np.frombuffer(ends, dtype=np.int64 if wide else np.int32)
        places = places[texts.offset : texts.offset + len(texts) + 1].astype(np.int64)
        letters = np.frombuffer(data or b"\0", dtype=np.uint8)
        _of_texts(_view(letters), _view(places), _view(first), _view(second))
    return first, second


def of_operations(
    ids: tuple[Words, Words],
    submitted_ms: Integers,
    timeout_ms: Integers,
    needed: Integers,
    starts: Integers,
    keys: tuple[Words, Words],
    offsets: Integers,
) -> tuple[Words, Checks]:
    """Return the reference and the check of each operation; ids and keys as fingerprints."""
    references = np.empty(len(submitted_ms), dtype=np.uint64)
    checks = np.empty(len(submitted_ms), dtype=np.uint32)
    if len(references):
        _of_operations(
            _view(ids[0]),
            _view(ids[1]),
            _words(submitted_ms),
            _words(timeout_ms),
            _words(needed),
            _view(starts),
            _view(keys[0]),
            _view(keys[1]),
            _words(offsets),
            _view(references),
            _view(checks),
        )
    return references, checks


def partitions(words: Words, count: int) -> npt.NDArray[np.uint16]:
    """Return the partition for each fingerprint or reference: they share the first 20 bits."""
    return (((words >> np.uint64(44)) * np.uint64(count)) >> np.uint64(20)).astype(np.uint16)


def places(references: Words, checks: Checks, wanted: Words, wanted_checks: Checks) -> Integers:
    """Say where among `references` each of `wanted` is; -1 where it is not.

    Raises FingerprintsMeet if two of `references` are the same, checks included.
    """
    found = np.full(len(wanted), -1, dtype=np.int64)
    if len(references) and len(wanted):
        size = 1 << (2 * len(references)).bit_length()
        table = np.full(size, -1, dtype=np.int64)
        twice = _places(
            _view(references),
            _view(checks),
            _view(wanted),
            _view(wanted_checks),
            _view(table),
            _view(found),
        )
        if twice >= 0:
            raise FingerprintsMeet(
                "two different operations have the same fingerprint, a chance of 1 in 2⁷⁶ for "
                f"each pair; put a letter before the ids, all of them, and try again (row {twice})"
            )
    return found


def _words(numbers: Integers) -> Any:
    return _view(np.asarray(numbers, dtype=np.int64).view(np.uint64))


def _view(numbers: npt.NDArray[Any]) -> Any:
    """Look at the numbers as C does; interpreted, they come out as plain integers."""
    return memoryview(np.ascontiguousarray(numbers))  # type: ignore[arg-type]


def _of_texts(letters: Any, places: Any, first: Any, second: Any) -> int:
    for n in range(len(first)):
        at = places[n]
        end = places[n + 1]
        one = ((end - at) * _TWO) & _ALL
        two = ((end - at + 1) * _ONE) & _ALL
        while at + 8 <= end:
            word = (
                letters[at]
                | _wide(letters[at + 1]) << 8
                | _wide(letters[at + 2]) << 16
                | _wide(letters[at + 3]) << 24
                | _wide(letters[at + 4]) << 32
                | _wide(letters[at + 5]) << 40
                | _wide(letters[at + 6]) << 48
                | _wide(letters[at + 7]) << 56
            )
            one = _mix(one ^ word, _ONE)
            two = _mix((two + word) & _ALL, _TWO)
            at += 8
        word = 0
        while at < end:
            word = (word << 8) | letters[at]
            at += 1
        one = _mix(one ^ word, _ONE)
        two = _mix((two + word) & _ALL, _TWO)
        first[n] = _mix(one, _TWO)
        second[n] = _mix(two, _ONE)
    return 0


def _of_operations(
    id_first: Any,
    id_second: Any,
    submitted_ms: Any,
    timeout_ms: Any,
    needed: Any,
    starts: Any,
    key_first: Any,
    key_second: Any,
    offsets: Any,
    references: Any,
    checks: Any,
) -> int:
    for n in range(len(references)):
        one = _mix(id_first[n] ^ submitted_ms[n], _ONE)
        two = _mix((id_second[n] + submitted_ms[n]) & _ALL, _TWO)
        one = _mix(one ^ timeout_ms[n], _ONE)
        two = _mix((two + timeout_ms[n]) & _ALL, _TWO)
        one = _mix(one ^ needed[n], _ONE)
        two = _mix((two + needed[n]) & _ALL, _TWO)
        for r in range(starts[n], starts[n + 1]):
            one = _mix(_mix(one ^ key_first[r], _ONE) ^ offsets[r], _TWO)
            two = _mix(_mix((two + key_second[r]) & _ALL, _TWO) ^ offsets[r], _ONE)
        references[n] = (id_first[n] & _ROUTE) | (_mix(one, _TWO) >> 20)
        checks[n] = _mix(two, _ONE) >> 32
    return 0


def _places(
    references: Any, checks: Any, wanted: Any, wanted_checks: Any, table: Any, found: Any
) -> int:
    mask = len(table) - 1
    for n in range(len(references)):
        slot = references[n] & mask
        while table[slot] >= 0:
            other = table[slot]
            if references[other] == references[n] and checks[other] == checks[n]:
                return n
            slot = (slot + 1) & mask
        table[slot] = n
    for n in range(len(wanted)):
        slot = wanted[n] & mask
        while table[slot] >= 0:
            other = table[slot]
            if references[other] == wanted[n] and checks[other] == wanted_checks[n]:
                found[n] = other
                break
            slot = (slot + 1) & mask
    return -1


def _wide(letter: int) -> int:
    """A byte as 64 bits without a sign: C would shift it as an int."""
    return letter


def _mix(word: int, factor: int) -> int:
    word = (word * factor) & _ALL
    return word ^ (word >> 29)
