"""The ledger: how a shard's engine survives between batches.

An engine lives in a Python worker and may be large, so it is not written whole every batch. In
Spark's state store are, of every shard,

    snapshot   the engine as it was some batches ago, in chunks
    log        what was applied since, an entry a batch
    head       which version this is, and a few numbers

and a worker keeps the engines it has used last. A version is named by a token drawn at random each
time a shard is written. What a worker finds when it is given a shard:

    A. its engine has the token of the head: it is the present one
    B. its engine has the token of the snapshot or of an entry: it is behind, and catches up with
       the entries after that
    C. it has none, or one whose token is nowhere: that one saw a batch which failed afterwards and
       counts for nothing. The engine is made anew, of the snapshot and the log

So an engine that has gone astray is never used, whatever became of the batch that led it there.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from pyspark.sql.types import BinaryType, IntegerType, LongType, StructField, StructType

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

_CHUNK = 1 << 18
_SMALL_LOG = 1 << 16  # bytes; replaying less costs nothing to speak of
_TOKEN = 8
_MOST_CACHED = 1 << 29  # bytes of engines that a worker keeps

_HEAD = StructType(
    [
        StructField("token", BinaryType()),
        StructField("snapshot_token", BinaryType()),
        StructField("snapshot_bytes", LongType()),
        StructField("log_bytes", LongType()),
        StructField("entries", IntegerType()),
        StructField("now_ms", LongType()),
        StructField("latest_ms", LongType()),
        StructField("news_ms", LongType()),
        StructField("next_ms", LongType()),
    ]
)
_ENTRY = StructType([StructField("token", BinaryType()), StructField("entry", BinaryType())])
_PART = StructType([StructField("part", BinaryType())])


class Engine(Protocol):
    """What the ledger needs of an engine."""

    def snapshot(self) -> bytes: ...

    def replay(self, entry: Any) -> None: ...


@dataclass(slots=True)
class Head:
    """A shard's version and the numbers that are read even when its engine is not needed."""

    token: bytes = b""  # none: the shard is new
    snapshot_token: bytes = b""
    snapshot_bytes: int = 0
    log_bytes: int = 0
    entries: int = 0
    now_ms: int | None = None
    latest_ms: int | None = None
    news_ms: int | None = None
    next_ms: int | None = None


# Of this worker: the engines it used last, by stream, stage and shard. An importable module's
# variable, so it outlives the task.
_cached: OrderedDict[Any, tuple[bytes, Any, int]] = OrderedDict()


class Ledger:
    """The state of the shards of one stage, as the present task sees it."""

    def __init__(
        self,
        handle: StatefulProcessorHandle,
        name: Any,
        kind: Any,
        options: dict[str, Any],
        snapshot_every: int,
    ) -> None:
        self._name = name
        self._kind = kind
        self._options = options
        self._snapshot_every = snapshot_every
        self._head = handle.getValueState("head", _HEAD)
        self._snapshot = handle.getListState("snapshot", _PART)
        self._log = handle.getListState("log", _ENTRY)

    def head(self) -> Head:
        """Read the head of the shard that Spark is at."""
        found = self._head.get()
        return Head() if found is None else Head(*found)

    def engine(self, shard: int, head: Head) -> Any:
        """Return the shard's engine as of this head; the cache lets go of it until `write`."""
        _, engine, behind = self.found(shard, head)
        for _, entry in behind:
            engine.replay(bytes(entry))
        return engine

    def found(self, shard: int, head: Head) -> tuple[str, Any, list[Any]]:
        """Say how the engine is come by; return it, and the entries it lacks."""
        token, engine, _ = _cached.pop((self._name, shard), (b"", None, 0))
        if not head.token:
            return "new", self._kind(**self._options), []
        if engine is not None and token == head.token:
            return "present", engine, []  # A
        log = list(self._log.get()) if head.entries else []
        known = [head.snapshot_token, *(bytes(entry[0]) for entry in log)]
        if engine is not None and token in known:
            return "behind", engine, log[known.index(token) :]  # B
        if not head.snapshot_bytes:
            return "anew", self._kind(**self._options), log  # C, before the first snapshot
        whole = b"".join(part[0] for part in self._snapshot.get())
        return "anew", self._kind.restore(whole), log  # C

    def write(self, shard: int, head: Head, engine: Any, entry: bytes) -> None:
        """Write down that the entry was applied, and the new head."""
        head.token = os.urandom(_TOKEN)
        head.entries += 1
        head.log_bytes += len(entry)
        # A shard's turn comes at its own time, not all in one batch.
        enough = max(_SMALL_LOG, head.snapshot_bytes) * (8 + shard % 8) // 8
        if head.entries > self._snapshot_every or head.log_bytes > enough:
            whole = engine.snapshot()
            self._snapshot.put([(whole[n : n + _CHUNK],) for n in range(0, len(whole), _CHUNK)])
            self._log.clear()
            head.snapshot_token = head.token
            head.snapshot_bytes, head.log_bytes, head.entries = len(whole), 0, 0
        else:
            self._log.appendValue((head.token, entry))
        self.write_head(head)
        _keep((self._name, shard), head, engine)

    def write_head(self, head: Head) -> None:
        """Write down numbers that have changed while the engine has not."""
        self._head.update(
            (
                head.token,
                head.snapshot_token,
                head.snapshot_bytes,
                head.log_bytes,
                head.entries,
                head.now_ms,
                head.latest_ms,
                head.news_ms,
                head.next_ms,
            )
        )


def _keep(place: Any, head: Head, engine: Any) -> None:
    _cached[place] = (head.token, engine, head.snapshot_bytes + head.log_bytes)
    while len(_cached) > 1 and sum(size for _, _, size in _cached.values()) > _MOST_CACHED:
        _cached.popitem(last=False)
