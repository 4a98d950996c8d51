"""The moments: from when on each requirement holds."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Integers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


def held_ms(
    signal_keys: Any,
    signal_offsets: Integers,
    signal_at_ms: Integers,
    keys: Any,
    offsets: Integers,
    submitted_ms: Integers | None = None,
    *,
    threads: int | None = None,
) -> tuple[Integers, Mask]:
    """Return from which moment each requirement holds, and whether it ever does.

    A requirement (`keys[n]`, `offsets[n]`) holds from the earliest `at_ms` among the signals of
    its key with an offset at least its own; not before `submitted_ms[n]`, where that is given.
    Where it never holds the moment means nothing. Signals and requirements come in any order.
    """
    codes = pa.chunked_array([signal_keys, keys]).combine_chunks().dictionary_encode().indices
    codes = codes.to_numpy().astype(np.int64)
    signal_codes, codes = codes[: len(signal_keys)], codes[len(signal_keys) :]
    signals: dict[int, list[tuple[int, int]]] = {}
    for code, offset, at_ms in zip(
        signal_codes.tolist(), signal_offsets.tolist(), signal_at_ms.tolist(), strict=True
    ):
        signals.setdefault(code, []).append((offset, at_ms))
    moments = np.zeros(len(keys), dtype=np.int64)
    holds = np.zeros(len(keys), dtype=np.bool_)
    for n, (code, least) in enumerate(zip(codes.tolist(), offsets.tolist(), strict=True)):
        reached = [at_ms for offset, at_ms in signals.get(code, ()) if offset >= least]
        if reached:
            moments[n], holds[n] = min(reached), True
    if submitted_ms is not None:
        np.maximum(moments, submitted_ms, out=moments)
    return moments, holds
