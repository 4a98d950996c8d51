"""Contents: what the snapshots of a stream's engines hold about one id or one key."""

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
    contents: Row = {"id": id, "operation": None, "cancels_at_ms": [], "remembered_until_ms": None}
    for snapshot in id_snapshots:
        _, (held, cells, cancels, ended) = journal.unpack(
            waiting.SNAPSHOT, snapshot, waiting.SNAPSHOT_SCHEMAS
        )
        for row in _where(held, "id", id):
            at = pc.index(held.column("id"), pa.scalar(id, pa.large_string())).as_py()
            met = _where(cells, "operation", at)
            contents["operation"] = {
                name: row[name] for name in ("submitted_ms", "deadline_ms", "needed")
            } | {
                "requirements": row["requirements"],
                "met": [{"key": cell["key"], "at_ms": cell["moment_ms"]} for cell in met],
                "open": [],
            }
        contents["cancels_at_ms"] += [row["at_ms"] for row in _where(cancels, "id", id)]
        for row in _where(ended, "id", id):
            contents["remembered_until_ms"] = row["until_ms"]
    for snapshot in key_snapshots if contents["operation"] else ():
        _, (keys, _, needs) = journal.unpack(progress.SNAPSHOT, snapshot, progress.SNAPSHOT_SCHEMAS)
        for row in _where(needs, "id", id):
            key = keys.column("key")[row["key"]].as_py()
            contents["operation"]["open"].append({"key": key, "offset": row["offset"]})
    return contents


def of_key(key: str, key_snapshots: Iterable[Any]) -> Row:
    """Return what is known of a key: how far it has come, what is ahead of time, who waits."""
    contents: Row = {"key": key, "reached": None, "busy_ms": None, "ahead": [], "waiting": []}
    for snapshot in key_snapshots:
        _, (keys, ahead, needs) = journal.unpack(
            progress.SNAPSHOT, snapshot, progress.SNAPSHOT_SCHEMAS
        )
        for row in _where(keys, "key", key):
            at = pc.index(keys.column("key"), pa.scalar(key, pa.large_string())).as_py()
            contents |= {"reached": row["reached"], "busy_ms": row["busy_ms"]}
            contents["ahead"] = [
                {"offset": one["offset"], "at_ms": one["at_ms"]} for one in _where(ahead, "key", at)
            ]
            contents["waiting"] = [
                {name: need[name] for name in ("id", "offset", "submitted_ms", "deadline_ms")}
                for need in _where(needs, "key", at)
            ]
    return contents


def _where(batch: pa.RecordBatch, column: str, value: Any) -> list[Row]:
    scalar = pa.scalar(value, batch.schema.field(column).type)
    return list(batch.filter(pc.equal(batch.column(column), scalar)).to_pylist())
