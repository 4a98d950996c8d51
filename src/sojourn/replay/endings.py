# cython: cdivision=True
"""The endings: how and when each operation ends.

With d the deadline, c the moment the condition holds and x the cancel, an operation is

    A   completed at c   if c ≤ d and no x < c     a tie of c with d or with x goes to completion
    B   cancelled at x   if x < c and x ≤ d
    C   expired at d     otherwise

c is the `needed`-th smallest moment of its requirements. Times after `until_ms` are not known.
Every engine of rows ends operations by `ending`.
"""

from __future__ import annotations

try:
    import cython
except ImportError:  # pragma: no cover - depends on what is installed
    from sojourn import _cython as cython

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sojourn.replay.arrays import Integers, Mask, text_parts, view
from sojourn.replay.threads import in_parts

if cython.compiled:
    from cython.cimports.sojourn.replay.texts import precedes
else:
    from sojourn.replay.texts import precedes

# The names with an underscore are numbers of C in the compiled build.
PENDING = _PENDING = 0
COMPLETED = _COMPLETED = 1
EXPIRED = _EXPIRED = 2
CANCELLED = _CANCELLED = 3
STATUS = ("pending", "completed", "expired", "cancelled")  # their names, in this order

_MOST = 2**63 - 1


class Endings(NamedTuple):
    """How each operation ends, an array each."""

    status: npt.NDArray[np.int8]  # PENDING, COMPLETED, EXPIRED or CANCELLED
    at_ms: Integers  # means nothing where pending
    by: Integers  # the requirement that completed it, a place in `keys`; -1 where none did
    condition_ms: Integers  # when its condition held, whatever the end
    has_condition: Mask


def end_all(
    submitted_ms: Integers,
    timeout_ms: Integers,
    needed: Integers,
    starts: Integers,
    moments: Integers,
    holds: Mask,
    keys: pa.Array,
    cancel_ms: Integers | None = None,
    has_cancel: Mask | None = None,
    until_ms: int | None = None,
    *,
    threads: int | None = None,
) -> Endings:
    """Return how each operation ends, as far as that is known at `until_ms`.

    Requirements of operation n are `starts[n]` up to `starts[n + 1]` of `moments`, `holds` and
    `keys`, as `held_ms` gives them; a moment before the submission counts as the submission.
    `cancel_ms` is the earliest cancel at or after the submission, where `has_cancel`.
    """
    count = len(submitted_ms)
    endings = Endings(
        np.empty(count, dtype=np.int8),
        np.empty(count, dtype=np.int64),
        np.empty(count, dtype=np.int64),
        np.empty(count, dtype=np.int64),
        np.empty(count, dtype=np.bool_),
    )
    if cancel_ms is None:
        cancel_ms, has_cancel = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.bool_)
    elif has_cancel is None:
        has_cancel = np.ones(count, dtype=np.bool_)
    facts = [
        view(numbers) for numbers in (submitted_ms, timeout_ms, needed, starts, moments, cancel_ms)
    ]
    masks = [view(mask) for mask in (holds, has_cancel)]
    answers = [view(part) for part in endings]
    key_starts, text = text_parts(keys)
    known_ms = _MOST if until_ms is None else until_ms
    most = int(np.diff(starts).max(initial=0))

    def part(begin: int, end: int) -> None:
        _end(
            facts[0], facts[1], facts[2], facts[3], facts[4], facts[5], masks[0], masks[1],
            key_starts, text, known_ms,
            answers[0], answers[1], answers[2], answers[3], answers[4],
            view(np.empty(most, dtype=np.int64)), begin, end,
        )  # fmt: skip

    in_parts(part, count, threads)
    return endings


def _end(
    submitted_ms: memoryview,
    timeout_ms: memoryview,
    needed: memoryview,
    starts: memoryview,
    moments: memoryview,
    cancel_ms: memoryview,
    holds: memoryview,
    has_cancel: memoryview,
    key_starts: memoryview,
    text: memoryview,
    known_ms: int,
    status: memoryview,
    at_ms: memoryview,
    by: memoryview,
    condition_ms: memoryview,
    has_condition: memoryview,
    scratch: memoryview,
    begin: int,
    end: int,
) -> None:
    with cython.nogil:
        for n in range(begin, end):
            begins_ms = submitted_ms[n]
            deadline_ms = begins_ms + timeout_ms[n]
            held = 0
            for r in range(starts[n], starts[n + 1]):
                if holds[r]:
                    scratch[held] = moments[r] if moments[r] > begins_ms else begins_ms
                    held += 1
            met_ms = nth(scratch, held, needed[n]) if held >= needed[n] else 0
            is_met = held >= needed[n] and met_ms <= known_ms
            cancelled_ms = cancel_ms[n]
            is_cancelled = has_cancel[n] != 0 and begins_ms <= cancelled_ms <= known_ms
            has_condition[n] = is_met
            condition_ms[n] = met_ms
            by[n] = -1
            status[n] = ending(is_met, met_ms, is_cancelled, cancelled_ms, deadline_ms)
            if status[n] == _COMPLETED:
                at_ms[n] = met_ms
                by[n] = _smallest(
                    key_starts, text, moments, holds, starts[n], starts[n + 1], begins_ms, met_ms
                )
            elif status[n] == _CANCELLED:
                at_ms[n] = cancelled_ms
            else:
                at_ms[n] = deadline_ms
                if deadline_ms > known_ms:
                    status[n] = _PENDING


def ending(is_met: bool, met_ms: int, is_cancelled: bool, cancel_ms: int, deadline_ms: int) -> int:
    """Say how an operation ends; the letters are those at the head of the file."""
    if is_met and met_ms <= deadline_ms and not (is_cancelled and cancel_ms < met_ms):
        return _COMPLETED  # A
    if is_cancelled and cancel_ms <= deadline_ms:
        return _CANCELLED  # B
    return _EXPIRED  # C


def _smallest(
    key_starts: memoryview,
    text: memoryview,
    moments: memoryview,
    holds: memoryview,
    start: int,
    stop: int,
    begins_ms: int,
    met_ms: int,
) -> int:
    """The requirement with the smallest key of those that held at this moment."""
    best = -1
    for r in range(start, stop):
        if (
            holds[r]
            and (moments[r] if moments[r] > begins_ms else begins_ms) == met_ms
            and (
                best < 0
                or precedes(
                    text, key_starts[r], key_starts[r + 1], key_starts[best], key_starts[best + 1]
                )
            )
        ):
            best = r
    return best


def nth(numbers: memoryview, count: int, rank: int) -> int:
    """Return the number of this rank, from 1, among the first `count`; they change places."""
    if rank == 1 or rank == count:
        best = numbers[0]
        for n in range(1, count):
            if (numbers[n] < best) == (rank == 1):
                best = numbers[n]
        return best
    # The smallest ones on a heap, its largest at the top; every number smaller than that one
    # takes its place.
    for n in range(rank // 2 - 1, -1, -1):
        _sink(numbers, n, rank)
    for n in range(rank, count):
        if numbers[n] < numbers[0]:
            numbers[0] = numbers[n]
            _sink(numbers, 0, rank)
    return numbers[0]


def _sink(numbers: memoryview, place: int, size: int) -> None:
    number = numbers[place]
    while 2 * place + 1 < size:
        child = 2 * place + 1
        if child + 1 < size and numbers[child + 1] > numbers[child]:
            child += 1
        if numbers[child] <= number:
            break
        numbers[place] = numbers[child]
        place = child
    numbers[place] = number
