"""The ledger: how a shard's engine survives between batches.

An engine lives in a Python worker and may be large, so it is not written whole every batch. In
Spark's state store are, of every shard,

    snapshot   the engine as it was some batches ago, in numbered parts
    log        what was applied since, a numbered entry a batch
    head       the tokens of the snapshot and of every entry, and a few numbers

and a worker keeps the engines it has used last. A token is drawn at random each time a shard is
written, and names that version. What a worker finds when it is given a shard:

    A. its engine has the last token: it is the present one
    B. its engine has another of the tokens: it is behind, and catches up with the entries after it
    C. it has none, or one whose token is not there: that one saw a batch which failed afterwards
       and counts for nothing. The engine is made anew, of the snapshot and the log

So an engine that has gone astray is never used, whatever became of the batch that led it there.
Bytes are slow to read out of Spark's state, and shards change workers often; so entries are read
one by one, and only those that are lacking.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from pyspark.sql.types import BinaryType, IntegerType, LongType, StructField, StructType

from sojourn.errors import SojournError

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import MapState, StatefulProcessorHandle

_PART = 1 << 20
_SMALL_LOG = 1 << 16  # bytes; replaying less costs nothing to speak of
_TOKEN = 8
_MOST_CACHED = 1 << 29  # bytes of engines that a worker keeps

_HEAD = StructType(
    [
        StructField("tokens", BinaryType()),
        StructField("snapshot_bytes", LongType()),
        StructField("log_bytes", LongType()),
        StructField("now_ms", LongType()),
        StructField("latest_ms", LongType()),
        StructField("news_ms", LongType()),
        StructField("next_ms", LongType()),
    ]
)
_NUMBER = StructType([StructField("number", IntegerType())])
_BYTES = StructType([StructField("bytes", BinaryType())])


class Engine(Protocol):
    """What the ledger needs of an engine."""

    def snapshot(self) -> bytes: ...

    def replay(self, entry: Any) -> None: ...


@dataclass(slots=True)
class Head:
    """A shard's version and the numbers that are read even when its engine is not needed."""

    tokens: bytes = b""  # of the snapshot, then of each entry; none: the shard is new
    snapshot_bytes: int = 0
    log_bytes: int = 0
    now_ms: int | None = None
    latest_ms: int | None = None
    news_ms: int | None = None
    next_ms: int | None = None

    @property
    def entries(self) -> int:
        """How many the log has."""
        return max(0, len(self.tokens) // _TOKEN - 1)

    def entries_until(self, token: bytes) -> int | None:
        """Return how many entries an engine with this token has seen; None if it went astray."""
        known = [self.tokens[n : n + _TOKEN] for n in range(0, len(self.tokens), _TOKEN)]
        return known.index(token) if token in known else None


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
        self._snapshot = handle.getMapState("snapshot", _NUMBER, _BYTES)
        self._log = handle.getMapState("log", _NUMBER, _BYTES)

    def head(self) -> Head:
        """Read the head of the shard that Spark is at."""
        found = self._head.get()
        return Head() if found is None else Head(bytes(found[0]), *found[1:])

    def engine(self, shard: int, head: Head) -> Any:
        """Return the shard's engine as of this head; the cache lets go of it until `write`."""
        _, engine, seen = self.found(shard, head)
        for n in range(seen, head.entries):
            engine.replay(_bytes(self._log, n))
        return engine

    def found(self, shard: int, head: Head) -> tuple[str, Any, int]:
        """Say how the engine is come by; return it, and how many entries it has seen."""
        token, engine, _ = _cached.pop((self._name, shard), (b"", None, 0))
        if not head.tokens:
            return "new", self._kind(**self._options), 0
        seen = None if engine is None else head.entries_until(token)
        if seen is not None:
            return "present" if seen == head.entries else "behind", engine, seen  # A, B
        if not head.snapshot_bytes:
            return "anew", self._kind(**self._options), 0  # C, before the first snapshot
        parts = [_bytes(self._snapshot, n) for n in range(_parts(head.snapshot_bytes))]
        return "anew", self._kind.restore(b"".join(parts)), 0  # C

    def write(self, shard: int, head: Head, engine: Any, entry: bytes) -> None:
        """Write down that the entry was applied, and the new head."""
        token = os.urandom(_TOKEN)
        log_bytes = head.log_bytes + len(entry)
        # A shard's turn comes at its own time, not all in one batch.
        enough = max(_SMALL_LOG, head.snapshot_bytes) * (8 + shard % 8) // 8
        if head.entries >= self._snapshot_every or log_bytes > enough:
            self._write_snapshot(head, engine.snapshot())
            head.tokens = token
        else:
            self._log.updateValue((head.entries,), (entry,))
            head.log_bytes = log_bytes
            head.tokens = (head.tokens or bytes(_TOKEN)) + token
        self.write_head(head)
        _keep((self._name, shard), token, engine, head.snapshot_bytes + head.log_bytes)

    def _write_snapshot(self, head: Head, whole: bytes) -> None:
        parts = _parts(len(whole))
        for n in range(parts):
            self._snapshot.updateValue((n,), (whole[n * _PART : (n + 1) * _PART],))
        for n in range(parts, _parts(head.snapshot_bytes)):
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
                head.now_ms,
                head.latest_ms,
                head.news_ms,
                head.next_ms,
            )
        )


def _bytes(state: MapState, number: int) -> bytes:
    found = state.getValue((number,))
    if found is None:
        raise SojournError(
            f"the state of a shard lacks part {number} of its snapshot or log; the checkpoint is "
            "damaged: start from another one"
        )
    return bytes(found[0])


def _parts(size: int) -> int:
    return -(-size // _PART)


def _keep(place: Any, token: bytes, engine: Any, size: int) -> None:
    _cached[place] = (token, engine, size)
    while len(_cached) > 1 and sum(size for _, _, size in _cached.values()) > _MOST_CACHED:
        _cached.popitem(last=False)
