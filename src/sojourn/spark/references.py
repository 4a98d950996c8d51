"""The references: the partition of a key or an id, and a reference to an operation.

The hash of a key or an id gives its partition, the same on every machine and in both builds. Two
keys with the same hash only share a partition.

A requirement is sent to the partition of its key, and the moment found there must get back to its
operation. It could carry the number of its row. But if Spark computes a partition again, because a
machine was lost, its rows may come in another order, with other numbers. So it carries a
fingerprint of the operation's contents, 96 bits, and two rows with the same contents are the same
operation:

    reference, 64 bits   | 20 bits of the id: where to go | 44 bits of everything |
    check, 32 bits       | of everything, by another seed |

If two different operations had the same fingerprint, `places` would notice and raise; with 10⁹
operations the chance is about 1 in 10¹¹.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sojourn.errors import SojournError
from sojourn.replay.arrays import Integers, text_column, within
from sojourn.replay.codes import Codes
from sojourn.replay.rows import CleanOperations
from sojourn.replay.string_hashes import Hashes, hashes, mixed

Checks = npt.NDArray[np.uint32]

_CHECK_SEED = 0xC2B2AE3D27D4EB4F
_ROUTE = np.uint64(0xFFFFF00000000000)
_FINGERPRINT = np.dtype([("reference", "<u8"), ("check", "<u4")])


class FingerprintsMeet(SojournError, RuntimeError):
    """Two different operations have the same fingerprint: rename the id of one of them."""


def partitions(hashed: Hashes, count: int) -> npt.NDArray[np.uint16]:
    """Return the partition for each hash or reference: they share the first 20 bits."""
    return (((hashed >> np.uint64(44)) * np.uint64(count)) >> np.uint64(20)).astype(np.uint16)


def tags(clean: CleanOperations, key_hashes: Hashes) -> Hashes:
    """Tell operations of one id apart by what they wait for and how long.

    From the row alone: a task that runs again must come to the same tags.
    """
    place = within(clean.starts).astype(np.uint64)
    each = mixed(key_hashes, mixed(clean.offsets.view(np.uint64) + place))
    hashed: Hashes = np.add.reduceat(each, clean.starts[:-1])
    for words in (clean.submitted_ms, clean.timeout_ms, clean.needed):
        hashed = mixed(hashed, words)
    return hashed


def of_operations(
    clean: CleanOperations, id_hashes: Hashes, key_hashes: Hashes
) -> tuple[Hashes, Checks]:
    """Return the reference and the check of each operation; there is at least one."""
    references = mixed(tags(clean, key_hashes), id_hashes)
    checks = mixed(tags(clean, hashes(clean.keys, _CHECK_SEED)), hashes(clean.ids, _CHECK_SEED))
    return (
        (id_hashes & _ROUTE) | (references >> np.uint64(20)),
        (checks >> np.uint64(32)).astype(np.uint32),
    )


def places(references: Hashes, checks: Checks, wanted: Hashes, wanted_checks: Checks) -> Integers:
    """Say where among `references` each of `wanted` is; -1 where it is not.

    Raises FingerprintsMeet if two of `references` are the same, checks included.
    """
    codes = Codes(_fingerprints(references, checks))
    if codes.count < len(references):
        twice = int((codes.codes != np.arange(len(references))).argmax())
        raise FingerprintsMeet(
            "two different operations have the same fingerprint, a chance of 1 in 2⁷⁶ for "
            f"each pair; put a letter before the ids, all of them, and try again (row {twice})"
        )
    return codes.find(_fingerprints(wanted, wanted_checks), 1).astype(np.int64)


def _fingerprints(references: Hashes, checks: Checks) -> pa.Array:
    both = np.empty(len(references), dtype=_FINGERPRINT)
    both["reference"], both["check"] = references, checks
    starts = np.arange(len(both) + 1) * _FINGERPRINT.itemsize
    return text_column(starts, both, np.ones(len(both)), pa.large_binary())
