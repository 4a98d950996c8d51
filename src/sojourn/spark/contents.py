"""Contents: what the snapshots of a stream's engines say of one id or one key."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sojourn.replay import journal, progress, waiting

Row = dict[str, Any]


def of_id(id: str, id_snapshots: Iterable[Any], key_snapshots: Iterable[Any]) -> Row:
    """Return what is known of an id: the operation that waits, cancels ahead, how long it is known.

    Of its requirements those that are open, or may still be met earlier.
    """
    found: Row = {"id": id, "operation": None, "cancels_at_ms": [], "remembered_until_ms": None}
    for snapshot in id_snapshots:
        _, (held, cells, cancels, ended) = journal.unpack(
            waiting.SNAPSHOT, snapshot, waiting.SNAPSHOT_SCHEMAS
        )
        for row in _where(held, "id", id):
            at = pc.index(held.column("id"), pa.scalar(id, pa.large_string())).as_py()
            met = _where(cells, "operation", at)
            found["operation"] = {
                name: row[name] for name in ("submitted_ms", "deadline_ms", "needed")
            } | {
                "requirements": row["requirements"],
                "met": [{"key": cell["key"], "at_ms": cell["moment_ms"]} for cell in met],
                "open": [],
            }
        found["cancels_at_ms"] += [row["at_ms"] for row in _where(cancels, "id", id)]
        for row in _where(ended, "id", id):
            found["remembered_until_ms"] = row["until_ms"]
    for snapshot in key_snapshots if found["operation"] else ():
        _, (keys, _, needs) = journal.unpack(progress.SNAPSHOT, snapshot, progress.SNAPSHOT_SCHEMAS)
        for row in _where(needs, "id", id):
            key = keys.column("key")[row["key"]].as_py()
            found["operation"]["open"].append({"key": key, "offset": row["offset"]})
    return found


def of_key(key: str, key_snapshots: Iterable[Any]) -> Row:
    """Return what is known of a key: how far it has come, what is ahead of time, who waits."""
    found: Row = {"key": key, "reached": None, "busy_ms": None, "ahead": [], "waiting": []}
    for snapshot in key_snapshots:
        _, (keys, ahead, needs) = journal.unpack(
            progress.SNAPSHOT, snapshot, progress.SNAPSHOT_SCHEMAS
        )
        for row in _where(keys, "key", key):
            at = pc.index(keys.column("key"), pa.scalar(key, pa.large_string())).as_py()
            found |= {"reached": row["reached"], "busy_ms": row["busy_ms"]}
            found["ahead"] = [
                {"offset": one["offset"], "at_ms": one["at_ms"]} for one in _where(ahead, "key", at)
            ]
            found["waiting"] = [
                {name: need[name] for name in ("id", "offset", "submitted_ms", "deadline_ms")}
                for need in _where(needs, "key", at)
            ]
    return found


def _where(batch: pa.RecordBatch, column: str, value: Any) -> list[Row]:
    wanted = pa.scalar(value, batch.schema.field(column).type)
    return list(batch.filter(pc.equal(batch.column(column), wanted)).to_pylist())
