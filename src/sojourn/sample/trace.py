"""One trace: the shop's rows as three tables, in the order in which they arrive."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from sojourn.errors import OutOfRange
from sojourn.sample.faults import Faults
from sojourn.sample.shop import DAY_MS, REGIONS, ClassRows, Int64s, Shop

START_MS = 1_767_571_200_000  # Monday, 5 January 2026, 00:00 UTC

_SHARES = {"order": 0.55, "shipment": 0.27, "express": 0.12, "refund": 0.06}

OPERATIONS = pa.schema(
    [
        ("id", pa.string()),
        ("submitted_ms", pa.int64()),
        ("timeout_ms", pa.int64()),
        ("requires", pa.list_(pa.struct([("key", pa.string()), ("offset", pa.int64())]))),
        ("needed", pa.int32()),
        ("class", pa.string()),
        ("region", pa.string()),
    ]
)
SIGNALS = pa.schema([("key", pa.string()), ("offset", pa.int64()), ("at_ms", pa.int64())])
CANCELS = pa.schema([("id", pa.string()), ("at_ms", pa.int64())])


@dataclass(frozen=True)
class Trace:
    """Three tables in order of arrival, and when each of their rows arrived.

    Most rows arrive within a second or two of their own time. A few are late, some by hours.
    """

    operations: Any
    signals: Any
    cancels: Any
    operations_arrived_ms: Int64s
    signals_arrived_ms: Int64s
    cancels_arrived_ms: Int64s


def make(
    operations: int = 500_000, seed: int = 7, *, days: int = 2, start_ms: int = START_MS
) -> Trace:
    """Make a trace of about a shop's days; the same arguments give the same rows.

    `operations` counts the good rows; those that are sent twice or are broken come on top.
    """
    if not isinstance(operations, int) or operations < 1:
        raise OutOfRange(f"operations must be an integer ≥ 1, got {operations!r}")
    if not isinstance(days, int) or not 1 <= days <= 3_650:
        raise OutOfRange(f"days must be an integer from 1 to 3650, got {days!r}")
    rng = np.random.default_rng(seed)
    shop = Shop(rng, start_ms, days)
    counts = {name: int(operations * share) for name, share in _SHARES.items()}
    counts["order"] += operations - sum(counts.values())
    parts = [
        shop.orders(counts["order"]),
        shop.shipments(counts["shipment"]),
        shop.express(counts["express"]),
        shop.refunds(counts["refund"]),
    ]
    faults = Faults(rng, start_ms, start_ms + days * DAY_MS)
    all_operations = pa.concat_tables([_operations(part) for part in parts])
    all_signals = pa.concat_tables([_signals(part) for part in parts])
    all_cancels = pa.concat_tables([_cancels(part) for part in parts])
    sent_operations, operations_arrived_ms = faults.operations(all_operations)
    sent_signals, signals_arrived_ms = faults.signals(all_signals)
    sent_cancels, cancels_arrived_ms = faults.cancels(all_cancels)
    return Trace(
        sent_operations,
        sent_signals,
        sent_cancels,
        operations_arrived_ms,
        signals_arrived_ms,
        cancels_arrived_ms,
    )


def _operations(part: ClassRows) -> Any:
    count, places = len(part), len(part.requires)
    # The k-th requirements of all operations lie together; bring each operation's own together.
    interleaved = np.arange(count * places).reshape(places, count).T.ravel()
    keys = pa.concat_arrays([keys for keys, _ in part.requires]).take(interleaved)
    offsets = np.concatenate([offsets for _, offsets in part.requires])[interleaved]
    requires = pa.ListArray.from_arrays(
        np.arange(0, count * places + 1, places, dtype=np.int32),
        pa.StructArray.from_arrays([keys, pa.array(offsets)], ["key", "offset"]),
    )
    columns = [
        part.ids(),
        pa.array(part.submitted_ms),
        pa.array(np.full(count, part.timeout_ms)),
        requires,
        pa.repeat(pa.scalar(part.needed, pa.int32()), count),
        pa.repeat(part.name, count),
        pa.array(REGIONS).take(part.region),
    ]
    return pa.table(columns, schema=OPERATIONS)


def _signals(part: ClassRows) -> Any:
    tables = [
        pa.table([keys, pa.array(offsets), pa.array(at_ms)], schema=SIGNALS)
        for keys, offsets, at_ms in part.signals
    ]
    return pa.concat_tables(tables)


def _cancels(part: ClassRows) -> Any:
    ids = part.ids()
    tables = [
        pa.table([ids.take(which), pa.array(at_ms)], schema=CANCELS)
        for which, at_ms in part.cancels
    ]
    return pa.concat_tables(tables) if tables else CANCELS.empty_table()
