"""What must differ between two clusters is made equal; every rule, with its reason.

text      An error's message is prose for people and changes from release to release. Null
          and "" stay: whether there is a message is compared.
ids       Random or counted up: topics, members, producers, fetch sessions, the cluster, the
          metadata's place in its log. Most become the n-th of their kind in the scenario, so
          two that are equal stay equal.
places    Host, port and directories; which broker is named as the controller, as any may be.
times     Wall time: a number within an hour of now is "now".
sizes     Bytes of the disk.
order     Lists that are sets (topics, partitions, settings, members, who is in sync, mechanisms),
          by name.
"""

from __future__ import annotations

import re
import time
from typing import Any

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
# The id that a coordinator gives a member of the consumer protocol.
_MEMBER_ID = re.compile(r"[A-Za-z0-9_-]{22}")
_HOUR_MS = 3_600_000
_MESSAGES = ("error_message", "batch_index_error_message")
_PLACES = {"host": "host", "port": "port", "log_dir": "dir"}
_SIZES = ("total_bytes", "usable_bytes")
# The first of these that an element has is what it is called.
_NAMES = (
    "key",
    "node_id",
    "broker_id",
    "api_key",
    "group_id",
    "partition_index",
    "partition_id",
    "partition",
    "index",
    "member_id",
    "resource_name",
    "log_dir",
    "name",
    "topic",
    "topic_name",
    "topic_id",
    "transactional_id",
    "producer_id",
    "user",
    "mechanism",
    "feature",
)
_SETS = ("isr_nodes", "partitions", "mechanisms")  # if they are numbers or texts
_ORDERED = ("synonyms", "records", "aborted_transactions")  # whose order says something


class Normal:
    """The rules, for one scenario: it remembers which ids it has met."""

    def __init__(self, places: dict[str, str]) -> None:
        self._places = places  # text that says where this cluster is, and what stands for it
        self._ids: dict[tuple[str, object], str] = {}

    def __call__(self, value: Any, name: str = "") -> Any:
        if isinstance(value, dict):
            return {key: self(one, key) for key, one in value.items()}
        if isinstance(value, list):
            rows = [self(one, name) for one in value]
            if name in _SETS and rows and all(isinstance(row, int | str) for row in rows):
                return sorted(rows)
            if name in _ORDERED or not all(isinstance(row, dict) for row in rows):
                return rows
            named = {_name(row): row for row in rows}
            if None in named or len(named) < len(rows):
                return rows
            return {str(name): row for name, row in named.items()}
        if name in _MESSAGES or name == "message":
            return "…" if value else value
        if name == "cluster_id":
            return "cluster"
        if name == "finalized_features_epoch" and value >= 0:
            return "epoch"
        if name == "controller_id" and value >= 0:
            return "a broker"
        if name in _PLACES:
            return value if value in ("", -1) else _PLACES[name]
        if name in _SIZES:
            return value if value < 0 else "bytes"
        if name == "producer_id" and value >= 0:
            return self._id("producer", value)
        if name == "session_id" and value > 0:
            return self._id("session", value)
        if name == "member_id" and _MEMBER_ID.fullmatch(value or ""):
            return self._id("member", value)
        if isinstance(value, str):
            for text, instead in self._places.items():
                value = value.replace(text, instead)
            return _UUID.sub(lambda found: self._id("id", found[0]), value)
        if isinstance(value, int) and abs(value - time.time() * 1000) < _HOUR_MS:
            return "now"
        return value

    def _id(self, kind: str, value: object) -> str:
        known = self._ids.get((kind, value))
        if known is None:
            count = sum(other == kind for other, _ in self._ids)
            known = self._ids[kind, value] = f"{kind}-{count + 1}"
        return known


def _name(row: dict[str, Any]) -> str | None:
    for name in _NAMES:
        if row.get(name) is not None:
            return str(row[name])
    return None
