"""Reshard: cut snapshots of engines by key or id, and join the pieces for another number of shards.

    snapshot of old shard 0 ─┬─ pieces ─┬─▶ snapshot of new shard 0
    snapshot of old shard 1 ─┘          ├─▶ snapshot of new shard 1
                                        └─▶ snapshot of new shard 2

A piece is a snapshot, too. Rows of a snapshot refer to others by number (a requirement to its key,
a candidate to its operation), so both steps renumber them. All engines must be at the same time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sojourn.replay import journal, progress, waiting
from sojourn.replay.progress import Progress
from sojourn.replay.string_hashes import hashes, shard_of
from sojourn.replay.waiting import Waiting

Numbers = npt.NDArray[np.int64]


def cut(kind: type[Progress | Waiting], snapshot: Any, shards: int) -> Iterator[tuple[int, bytes]]:
    """Yield, for each of so many shards that has something in it, a snapshot of its part."""
    facts, batches = _opened(kind, snapshot)
    owners, owned = batches[0], _OWNED[kind]
    shard = _shards(owners.column(0), shards)
    number = _ranks(shard, shards)
    # Of each batch its rows' shards; of those that refer to owners, by their owner.
    of_rows = [shard]
    for batch in batches[1:]:
        if owned in batch.schema.names:
            of_rows.append(shard[batch.column(owned).to_numpy()])
        else:
            of_rows.append(_shards(batch.column(0), shards))
    for n in sorted({int(n) for rows in of_rows for n in np.unique(rows)}):
        parts = [
            batch.filter(pa.array(rows == n)) for batch, rows in zip(batches, of_rows, strict=True)
        ]
        yield n, _packed(kind, facts, [_renumbered(part, owned, number) for part in parts])


def joined(kind: type[Progress | Waiting], snapshots: Sequence[Any], option: int) -> bytes:
    """Return the snapshot of one engine that has what all of these have.

    `option`: for how long it remembers keys or ids, which need not be what they had.
    """
    opened = [_opened(kind, snapshot) for snapshot in snapshots]
    owned = _OWNED[kind]
    parts: list[list[pa.RecordBatch]] = [[] for _ in opened[0][1]]
    before = 0
    for _, batches in opened:
        count = batches[0].num_rows
        for place, batch in zip(parts, batches, strict=True):
            place.append(_renumbered(batch, owned, np.arange(before, before + count)))
        before += count
    whole = [pa.concat_batches(place) for place in parts]
    if kind is Waiting:  # the ended ids, from the one to be forgotten first
        order = np.argsort(whole[3].column("until_ms").to_numpy(), kind="stable")
        whole[3] = whole[3].take(pa.array(order))
    facts = list(opened[0][0])
    facts[2] = option  # in both, after whether time has begun and what time it is
    return _packed(kind, facts, whole)


_KINDS: dict[Any, Any] = {Progress: progress, Waiting: waiting}  # their modules
_OWNED: dict[Any, str] = {Progress: "key", Waiting: "operation"}  # refers to the first batch's rows


def _opened(kind: Any, snapshot: Any) -> tuple[Sequence[int], list[pa.RecordBatch]]:
    return journal.unpack(_KINDS[kind].SNAPSHOT, snapshot, _KINDS[kind].SNAPSHOT_SCHEMAS)


def _packed(kind: Any, facts: Sequence[int], batches: list[pa.RecordBatch]) -> bytes:
    return journal.pack(_KINDS[kind].SNAPSHOT, facts, batches)


def _shards(names: pa.Array, shards: int) -> Numbers:
    return shard_of(hashes(names), shards)


def _ranks(shard: Numbers, shards: int) -> Numbers:
    """Return of each row how many rows of its shard are before it."""
    order = np.argsort(shard, kind="stable")
    starts = np.searchsorted(shard[order], np.arange(shards))
    ranks = np.empty(len(shard), dtype=np.int64)
    ranks[order] = np.arange(len(shard)) - starts[shard[order]]
    return ranks


def _renumbered(batch: pa.RecordBatch, owned: str, number: Numbers) -> pa.RecordBatch:
    """Return the rows with new numbers of what they refer to, if they refer to anything."""
    at = batch.schema.get_field_index(owned)
    if at < 0 or not pa.types.is_int32(batch.schema.field(at).type):
        return batch
    columns = list(batch.columns)
    columns[at] = pa.array(number[columns[at].to_numpy()].astype(np.int32))
    return pa.record_batch(columns, schema=batch.schema)
