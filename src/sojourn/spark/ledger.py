"""The ledger: how a shard's engine survives between batches.

An engine lives in a Python worker and may be large, so it is not written whole every batch. Spark's
state store holds for every shard

    snapshot   the engine as it was some batches ago, in numbered parts
    log        what was applied since, a numbered entry a batch
    head       the tokens of the snapshot and of every entry, and a few numbers

and a worker caches the engines it used last. Each write of a shard draws a random token, which
names that version. A worker that is given a shard looks at the token of its engine:

    A. the last token: the engine is up to date
    B. another token of the head: the engine is behind, and catches up with the entries after it
    C. no engine, or a token that is not in the head: that engine saw a batch which failed
       afterwards. The engine is rebuilt from the snapshot and the log

So an engine that saw a failed batch is never used. Reading bytes from Spark's state is slow, and
shards change workers often; so entries are read one by one, and only those that are missing.

A worker caches engines up to a number of bytes, and those of a query only while it runs. Workers
are not told that a query has stopped, so its engines are dropped after some minutes without a
request. They are cached by the query's id, which is in its checkpoint, so a query that is started
again finds them.
"""

from __future__ import annotations

import os
import time
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from sojourn.errors import SojournError
from sojourn.spark.heads import HEAD, PART_BYTES, TOKEN_BYTES, Head, head_of, parts_of

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import MapState, StatefulProcessorHandle

_SMALL_LOG = 1 << 16  # bytes; replaying less costs next to nothing
_PACKED = 2  # how many times smaller an entry is than its rows in memory, about
_MOST_CACHED = 1 << 29  # bytes of engines that a worker keeps
_SILENT_S = 600  # a query without a request for so long has stopped

_HEAD = from_arrow_schema(HEAD)
_NUMBER = from_arrow_schema(pa.schema([("number", pa.int32())]))
_BYTES = from_arrow_schema(pa.schema([("bytes", pa.binary())]))


class Engine(Protocol):
    """What the ledger needs of an engine."""

    @property
    def nbytes(self) -> int: ...

    def snapshot(self) -> bytes: ...

    def replay(self, entry: Any) -> None: ...


class Cache:
    """The engines that a worker used last, by stream, stage and shard, with their tokens."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Any, tuple[bytes, Any, int]] = OrderedDict()
        self._asked_s: dict[Any, float] = {}  # when each stream was last seen here

    @property
    def nbytes(self) -> int:
        return sum(size for _, _, size in self._kept.values())

    def take(self, place: tuple[Any, Any, int]) -> tuple[bytes, Any]:
        """Remove and return the token and the engine; b"" and None if there is none."""
        token, engine, _ = self._kept.pop(place, (b"", None, 0))
        return token, engine

    def keep(self, place: tuple[Any, Any, int], token: bytes, engine: Engine) -> None:
        """Keep an engine, and those used last beside it as far as there is room."""
        self._kept[place] = (token, engine, engine.nbytes)
        size = self.nbytes
        while size > _MOST_CACHED and len(self._kept) > 1:
            size -= self._kept.popitem(last=False)[1][2]

    def see(self, stream: Any, now_s: float) -> None:
        """Note that the stream runs; drop the engines of streams that have been silent for long."""
        self._asked_s[stream] = now_s
        for other, asked_s in list(self._asked_s.items()):
            if now_s - asked_s > _SILENT_S:
                del self._asked_s[other]
                for place in [place for place in self._kept if place[0] == other]:
                    del self._kept[place]


# Of this worker: an importable module's variable, so it outlives the task.
_cache = Cache()


class Ledger:
    """The state of the shards of one stage, as the present task sees it."""

    def __init__(
        self,
        handle: StatefulProcessorHandle,
        stream: str,
        stage: str,
        kind: Any,
        options: dict[str, Any],
        snapshot_every: int,
    ) -> None:
        stream = _query_id() or stream
        self._name = (stream, stage)
        _cache.see(stream, time.monotonic())
        self._kind = kind
        self._options = options
        self._snapshot_every = snapshot_every
        self._head = handle.getValueState("head", _HEAD)
        self._snapshot = handle.getMapState("snapshot", _NUMBER, _BYTES)
        self._log = handle.getMapState("log", _NUMBER, _BYTES)

    def head(self) -> Head:
        """Read the head of the shard that Spark is at."""
        state = self._head.get()
        return Head() if state is None else head_of(state)

    def engine(self, shard: int, head: Head) -> Any:
        """Return the shard's engine as of this head; it leaves the cache until `write`."""
        _, engine, seen = self.obtained(shard, head)
        for n in range(seen, head.entries):
            engine.replay(_bytes(self._log, n))
        return engine

    def obtained(self, shard: int, head: Head) -> tuple[str, Any, int]:
        """Return how the engine was obtained, the engine, and how many entries it has seen."""
        token, engine = _cache.take((*self._name, shard))
        if not head.tokens:
            return "new", self._kind(**self._options), 0
        seen = None if engine is None else head.entries_until(token)
        if seen is not None:
            return "cached" if seen == head.entries else "behind", engine, seen  # A, B
        if not head.snapshot_bytes:
            return "rebuilt", self._kind(**self._options), 0  # C, before the first snapshot
        parts = [_bytes(self._snapshot, n) for n in range(parts_of(head.snapshot_bytes))]
        return "rebuilt", self._kind.restore(b"".join(parts)), 0  # C

    def write(self, shard: int, head: Head, engine: Any, applied: Sequence[Any]) -> None:
        """Write down what was applied, the arguments of the engine's `entry`, and the new head."""
        token = os.urandom(TOKEN_BYTES)
        batches = (part for part in applied if isinstance(part, pa.RecordBatch))
        entry_bytes = sum(batch.nbytes for batch in batches) // _PACKED
        # A shard's turn comes at its own time, not all in one batch.
        enough = max(_SMALL_LOG, head.snapshot_bytes) * (8 + shard % 8) // 8
        if head.entries >= self._snapshot_every or head.log_bytes + entry_bytes > enough:
            self._write_snapshot(head, engine.snapshot())
            head.tokens = token
        else:
            entry = self._kind.entry(*applied)
            self._log.updateValue((head.entries,), (entry,))
            head.log_bytes += len(entry)
            head.tokens = (head.tokens or bytes(TOKEN_BYTES)) + token
        self.write_head(head)
        _cache.keep((*self._name, shard), token, engine)

    def begin(self, shard: int, head: Head, engine: Any) -> None:
        """Write down a shard that begins with this engine, in a checkpoint that has none yet."""
        head.tokens = os.urandom(TOKEN_BYTES)
        self._write_snapshot(head, engine.snapshot())
        self.write_head(head)
        _cache.keep((*self._name, shard), head.tokens, engine)

    def _write_snapshot(self, head: Head, whole: bytes) -> None:
        parts = parts_of(len(whole))
        for n in range(parts):
            self._snapshot.updateValue((n,), (whole[n * PART_BYTES : (n + 1) * PART_BYTES],))
        for n in range(parts, parts_of(head.snapshot_bytes)):
            self._snapshot.removeKey((n,))
        for n in range(head.entries):
            self._log.removeKey((n,))
        head.snapshot_bytes, head.log_bytes = len(whole), 0

    def write_head(self, head: Head) -> None:
        """Write down numbers that have changed while the engine has not."""
        self._head.update(
            (
                head.tokens,
                head.snapshot_bytes,
                head.log_bytes,
                head.next_ms,
                head.names,
                head.waiting,
                head.pace.now_ms,
                list(head.pace.latest_ms),
                list(head.pace.news_ms),
            )
        )


def _bytes(state: MapState, number: int) -> bytes:
    value = state.getValue((number,))
    if value is None:
        raise SojournError(
            f"the state of a shard lacks part {number} of its snapshot or log; the checkpoint is "
            "damaged: start from another one"
        )
    return bytes(value[0])


def _query_id() -> str | None:
    """Return the id of the query whose task this is; None outside of one."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return None if context is None else context.getLocalProperty("sql.streaming.queryId")
