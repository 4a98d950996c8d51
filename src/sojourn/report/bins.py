"""Bins for times of any length: exact below 128 ms, then 64 to each doubling.

    value      0 1 2 … 127 | 128 129 | 130 131 | … | 256 … 259 | …
    bin        0 1 2 … 127 |   128   |   129   | … |    192    | …

Every bin is a power of two wide and starts at a multiple of its width, so any value's bin and any
bin's bounds are found with shifts, exactly, for all 64 bits.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Counts = npt.NDArray[np.int64]
Values = npt.NDArray[np.uint64]

_BITS = 6
PER_DOUBLING = 1 << _BITS
BINS = (64 - _BITS + 1) * PER_DOUBLING


class Histogram:
    """How many values fell into each bin."""

    def __init__(self) -> None:
        self.counts: Counts = np.zeros(BINS, np.int64)

    def add(self, values: Values) -> None:
        self.counts += np.bincount(bin_of(values), minlength=BINS)

    def __len__(self) -> int:
        return int(self.counts.sum())


def bin_of(values: Values) -> npt.NDArray[np.int64]:
    """The bin of each value."""
    shift = np.maximum(_highest_bit(values) - _BITS, 0)
    return shift * PER_DOUBLING + (values >> shift.astype(np.uint64)).astype(np.int64)


def start_of(number: int) -> int:
    """The smallest value in the bin; of the bin after the last, 2**64."""
    shift = shift_of(number)
    return (number - shift * PER_DOUBLING) << shift


def shift_of(number: int) -> int:
    """The bin is 2**shift wide."""
    return max(number // PER_DOUBLING - 1, 0)


def rounded_up(values: Values, bits: int) -> Values:
    """The values with so many leading bits; what they lose rounds them up."""
    shift = np.maximum(_highest_bit(values) - bits + 1, 0).astype(np.uint64)
    leading = values >> shift
    leading += (leading << shift) != values
    rounded = leading << shift
    return np.where(rounded < values, np.uint64(2**64 - 1), rounded)  # past the last of all


def _highest_bit(values: Values) -> npt.NDArray[np.int64]:
    """The number of the highest bit that is set; -1 of 0."""
    # With the second-highest bit cleared a value cannot round up to the next power of two when it
    # becomes a float of 53 bits.
    exponents = np.frexp((values & ~(values >> np.uint64(1))).astype(np.float64))[1]
    return exponents.astype(np.int64) - 1
