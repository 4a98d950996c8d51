"""The endings: how and when each operation ends."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Integers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

PENDING = 0
COMPLETED = 1
EXPIRED = 2
CANCELLED = 3
STATUS = ("pending", "completed", "expired", "cancelled")  # their names, in this order


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
    keys: Any,
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
        np.zeros(count, dtype=np.int8),
        np.zeros(count, dtype=np.int64),
        np.full(count, -1, dtype=np.int64),
        np.zeros(count, dtype=np.int64),
        np.zeros(count, dtype=np.bool_),
    )
    names = pa.array(keys).to_pylist()
    for n in range(count):
        begin_ms, deadline_ms = int(submitted_ms[n]), int(submitted_ms[n] + timeout_ms[n])
        held = sorted(
            (max(int(moments[r]), begin_ms), names[r].encode(), r)
            for r in range(starts[n], starts[n + 1])
            if holds[r]
        )
        condition = held[needed[n] - 1][0] if len(held) >= needed[n] else None
        if condition is not None and until_ms is not None and condition > until_ms:
            condition = None
        cancel = None
        if cancel_ms is not None and (has_cancel is None or has_cancel[n]):
            cancel = int(cancel_ms[n])
            if cancel < begin_ms or (until_ms is not None and cancel > until_ms):
                cancel = None
        if condition is not None:
            endings.condition_ms[n], endings.has_condition[n] = condition, True
        cancelled = cancel is not None and (condition is None or cancel < condition)
        if condition is not None and condition <= deadline_ms and not cancelled:
            endings.status[n], endings.at_ms[n] = COMPLETED, condition
            endings.by[n] = next(r for moment, _, r in held if moment == condition)
        elif cancel is not None and cancelled and cancel <= deadline_ms:
            endings.status[n], endings.at_ms[n] = CANCELLED, cancel
        elif until_ms is None or deadline_ms <= until_ms:
            endings.status[n], endings.at_ms[n] = EXPIRED, deadline_ms
    return endings
