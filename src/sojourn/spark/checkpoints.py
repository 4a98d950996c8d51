"""Checkpoint: what a stream's checkpoint holds, seen from outside the stream.

    CHECKPOINT/commits/41        batch 41 is done
    CHECKPOINT/offsets/41        a line for each source: how far batch 41 has read
    CHECKPOINT/sources/0/        of a folder: the files that were read, and in which batch
    CHECKPOINT/state/1, state/0  heads, snapshots and logs of the key shards and of the id shards

Engines are rebuilt from the state as a worker does it. A fork of a checkpoint is another checkpoint
that begins where the first one ends, with the same number of shards or another. The state becomes
the initial state of the new stream's first batch, and the sources go on behind what was read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sojourn.errors import SojournError
from sojourn.replay.progress import Progress
from sojourn.replay.waiting import Waiting
from sojourn.spark import reshard
from sojourn.spark.ddl import ddl
from sojourn.spark.folders import Folder
from sojourn.spark.heads import PACE, Head, head_of, parts_of
from sojourn.spark.labels import labels, shard_with
from sojourn.spark.session import quiet_pyspark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, GroupedData, SparkSession

KEYS, IDS = 1, 0  # the stages, as Spark numbers them: from the last
_ENGINES: dict[int, type[Progress | Waiting]] = {KEYS: Progress, IDS: Waiting}
_OPTIONS = {KEYS: "forget_keys_after_ms", IDS: "remember_ms"}

_HEAD, _SNAPSHOT, _LOG = range(3)
_STATE_SCHEMA = pa.schema(
    [
        ("shard", pa.int32()),
        ("snapshot", pa.binary()),
        *((name, pa.int64()) for name in ("names", "waiting", "nbytes")),
        *((name, pa.int64()) for name in ("snapshot_bytes", "log_bytes", "log_entries")),
        *PACE,
    ]
)
# Here a shard is known by its label.
_CUT_SCHEMA = pa.schema([("shard", pa.int64()), ("piece", pa.binary())])
_INITIAL_SCHEMA = pa.schema([("shard", pa.int64()), ("snapshot", pa.binary()), *PACE])

_FORK = "sojourn-fork"
_READ_BEFORE = 2**40  # a number of a batch that no query comes to


class Checkpoint:
    """A checkpoint of a stream, as of the last batch that is done, or of the batch given."""

    def __init__(self, spark: SparkSession, path: str, batch: int | None = None) -> None:
        self.path = path.rstrip("/")
        self._spark = spark
        self._folder = Folder(spark, path)
        self.batch = self._last() if batch is None else batch

    def _last(self) -> int:
        committed = [int(name) for name in self._folder.names("commits") if name.isdigit()]
        if not committed:
            raise SojournError(
                f"{self.path} is no checkpoint of a stream that has done a batch; "
                "give the folder that --checkpoint was given"
            )
        return max(committed)

    def shards(self, stage: int) -> DataFrame:
        """Return a row for each shard: its engine as a snapshot, and numbers of it."""
        with quiet_pyspark():
            return (
                self._pieces(stage)
                .groupBy("shard")
                .applyInArrow(lambda key, table: _rebuilt(stage, key, table), ddl(_STATE_SCHEMA))
            )

    def initial(self, stage: int, shards: int, option: int) -> DataFrame:
        """Return what the stage of a stream with so many shards is to begin with, a row a shard.

        `option`: for how long keys or ids are remembered from now on.
        """
        with quiet_pyspark():
            # All shards of the first stage keep the same pace; in the second it is not kept.
            pace = self.shards(KEYS).select("now_ms", "latest_ms", "news_ms").limit(1).first()
            assert pace is not None
            facts = pace.asDict()
            pieces = self.shards(stage).mapInArrow(
                lambda batches: _cut(stage, shards, facts["now_ms"], batches), ddl(_CUT_SCHEMA)
            )
            return pieces.groupBy("shard").applyInArrow(
                lambda key, table: _joined(stage, option, facts, key, table), ddl(_INITIAL_SCHEMA)
            )

    def offsets(self) -> list[str]:
        """Return how far each source was read, in the order of the sources."""
        text = self._folder.read(f"offsets/{self.batch}")
        if text is None:
            raise SojournError(f"{self.path} has no offsets of batch {self.batch}; is it complete?")
        return text.splitlines()[2:]  # after the version, and the batch's own times and settings

    def source_files(self, source: int, last: int) -> list[dict[str, Any]]:
        """Return the files that a source of the folder kind has read up to this log number."""
        place = f"sources/{source}"
        names = {name for name in self._folder.names(place) if not name.startswith(".")}
        numbers = {int(name.removesuffix(".compact")): name for name in names}
        whole = [n for n, name in numbers.items() if name.endswith(".compact") and n <= last]
        first = max(whole, default=0)
        entries = []
        for number in sorted(n for n in numbers if first <= n <= last):
            text = self._folder.read(f"{place}/{numbers[number]}") or ""
            entries += [json.loads(line) for line in text.splitlines()[1:] if line.strip()]
        return [entry for entry in entries if entry["batchId"] <= last or _was_carried(entry)]

    def _pieces(self, stage: int) -> DataFrame:
        """Return heads, parts of snapshots and entries of logs as rows of one kind."""
        from pyspark.sql import functions as F

        head = self._variable(stage, "head").select(
            F.col("shard"),
            F.lit(_HEAD).alias("what"),
            F.lit(0).alias("number"),
            F.lit(None).cast("binary").alias("bytes"),
            F.col("value").alias("head"),
        )
        kind = head.schema["head"].dataType
        pieces = head
        for kind_of_piece, name in ((_SNAPSHOT, "snapshot"), (_LOG, "log")):
            parts = self._variable(stage, name).select(
                F.col("shard"),
                F.lit(kind_of_piece).alias("what"),
                F.col("user_map_key.number").alias("number"),
                F.col("user_map_value.bytes").alias("bytes"),
                F.lit(None).cast(kind).alias("head"),
            )
            pieces = pieces.union(parts)
        return pieces

    def _variable(self, stage: int, name: str) -> DataFrame:
        reader = self._spark.read.format("statestore").option("operatorId", stage)
        reader = reader.option("batchId", self.batch).option("stateVarName", name)
        state = reader.load(self.path)
        label = state["key"]["shard"]
        # Before there were labels, shards were known by their 32-bit numbers.
        has_labels = dict(state.select(label.alias("label")).dtypes)["label"] == "bigint"
        return state.withColumn("shard", shard_with(label) if has_labels else label)


def _rebuilt(stage: int, key: Any, table: pa.Table) -> pa.Table:
    """Return the row of a shard, its engine made of its state."""
    rows = table.sort_by("number").to_pylist()
    head = next(head_of(tuple(row["head"].values())) for row in rows if row["what"] == _HEAD)
    engine = _engine(stage, head, rows)
    row = {
        "shard": key[0].as_py(),
        "snapshot": engine.snapshot(),
        "names": head.names,
        "waiting": head.waiting,
        "nbytes": engine.nbytes,
        "snapshot_bytes": head.snapshot_bytes,
        "log_bytes": head.log_bytes,
        "log_entries": head.entries,
        "now_ms": head.pace.now_ms,
        "latest_ms": list(head.pace.latest_ms),
        "news_ms": list(head.pace.news_ms),
    }
    return pa.Table.from_pylist([row], _STATE_SCHEMA)


def _engine(stage: int, head: Head, rows: list[dict[str, Any]]) -> Any:
    kind = _ENGINES[stage]
    whole = [row["bytes"] for row in rows if row["what"] == _SNAPSHOT]
    if len(whole) != parts_of(head.snapshot_bytes):
        raise SojournError("the state of a shard lacks parts of its snapshot; it is damaged")
    engine = kind.restore(b"".join(whole)) if whole else kind()
    for row in rows:
        if row["what"] == _LOG:
            engine.replay(row["bytes"])
    return engine


def _cut(
    stage: int, shards: int, now_ms: int | None, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Cut engines for another number of shards; all are advanced to the same time first."""
    kind = _ENGINES[stage]
    # Every shard keeps the pace, also one that has nothing.
    pieces: list[dict[str, Any]] = [{"shard": label} for label in labels(shards)]
    yield pa.RecordBatch.from_pylist(pieces, _CUT_SCHEMA)
    for batch in batches:
        for snapshot in batch.column("snapshot"):
            engine: Any = kind.restore(snapshot.as_buffer())
            if now_ms is not None and (engine.now_ms is None or engine.now_ms < now_ms):
                nothing = [None] * (2 if stage == KEYS else 3)
                engine.apply(*nothing, now_ms)
            for shard, piece in reshard.cut(kind, engine.snapshot(), shards):
                row = {"shard": labels(shards)[shard], "piece": piece}
                yield pa.RecordBatch.from_pylist([row], _CUT_SCHEMA)


def _joined(stage: int, option: int, pace: dict[str, Any], key: Any, table: pa.Table) -> pa.Table:
    """Return the row that a new shard begins with, put together of its pieces."""
    kind = _ENGINES[stage]
    pieces = table.column("piece").drop_null().to_pylist()
    if pieces:
        whole = reshard.joined(kind, pieces, option)
    else:
        whole = kind(**{_OPTIONS[stage]: option}).snapshot()
    row = {"shard": key[0].as_py(), "snapshot": whole, **pace}
    return pa.Table.from_pylist([row], _INITIAL_SCHEMA)


@dataclass(frozen=True)
class Fork:
    """A checkpoint to begin with; what `fork_checkpoint` gives."""

    origin: Checkpoint | None  # None: the new one has begun already, and goes on by itself

    def initial(self, stage: int, shards: int, option: int) -> GroupedData | None:
        """Return what a stage is to begin with, by shard; None if it has begun."""
        if self.origin is None:
            return None
        return self.origin.initial(stage, shards, option).groupBy("shard")


def fork_checkpoint(spark: SparkSession, old: str, new: str) -> Fork:
    """Prepare `new` as a checkpoint that goes on where `old` stands; `old` is left as it is.

    Give what comes back to `resolve_stream(fork=…)`, with the same sources in the same order, and
    write with the checkpoint `new`. The number of shards may be another. Once the new stream has
    done its first batch, `old` is not needed any more, and this does nothing.

    Sources that are folders and Kafka topics go on behind what was read; for others it is an error.
    """
    to = Folder(spark, new)
    if any(name.isdigit() for name in to.names("commits")):
        return Fork(None)
    note = to.read(_FORK)
    if note is None:
        if to.names(""):
            raise SojournError(
                f"{new} is neither empty nor a fork; a fork begins in a folder of its own"
            )
        origin = Checkpoint(spark, old)
        for source, offset in enumerate(origin.offsets()):
            text = _read_so_far(origin, source, offset)
            if text is not None:
                to.write(f"sources/{source}/0", text)
        to.write(_FORK, json.dumps({"from": origin.path, "batch": origin.batch}))
        return Fork(origin)
    forked = json.loads(note)
    if forked["from"] != old.rstrip("/"):
        raise SojournError(f"{new} is a fork of {forked['from']}, and this is {old}")
    return Fork(Checkpoint(spark, old, forked["batch"]))


def _read_so_far(origin: Checkpoint, source: int, offset: str) -> str | None:
    """Return the log with which a new source takes all that was read for known."""
    try:
        at = json.loads(offset)
    except ValueError:
        at = None
    if isinstance(at, int):
        return None  # the heartbeat, which starts again
    if isinstance(at, dict) and set(at) == {"logOffset"}:
        files = origin.source_files(source, at["logOffset"])
        lines = [json.dumps(entry | {"batchId": _READ_BEFORE}) for entry in files]
        return "\n".join(["v1", *lines])
    if isinstance(at, dict) and all(isinstance(ends, dict) for ends in at.values()):
        return f"\0v1\n{offset}"  # Kafka's; the first byte is for the oldest of its readers
    raise SojournError(
        f"source {source} of {origin.path} is neither a folder nor a topic (its offset is "
        f"{offset[:100]}), and a fork cannot tell such a source where to go on"
    )


def _was_carried(entry: dict[str, Any]) -> bool:
    return bool(entry["batchId"] == _READ_BEFORE)
