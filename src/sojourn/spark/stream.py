"""The stream: three streaming DataFrames in, outcomes and rejected rows out.

    operations ─┐  mapInArrow          transformWithState         mapInArrow
    signals ────┼─ check, lay out ─▶ KeyShards ─▶ IdShards ─▶ unpack ─▶ outcomes, rejected
    cancels ────┤  in parcels        (shards.py)
    heartbeat ──┘  (intake.py)

The shards decide what time it is, which rows are late and which operations end. Spark's watermarks
and timers are not used: a watermark follows the latest time of all rows, so one row from the future
would move it for ever, and Spark drops late rows silently.
"""

from __future__ import annotations

import uuid
import warnings
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sojourn.errors import BadTable, OutOfRange, SojournError, WrongType
from sojourn.replay import rows, schemas
from sojourn.spark import parcels
from sojourn.spark.ends import Ends
from sojourn.spark.intake import TAKEN_DDL, WALL, Heartbeat, Intake
from sojourn.spark.pace import SOURCES, Rule
from sojourn.spark.session import ROCKSDB, STATE_STORE, STREAM_SETTINGS, quiet_pyspark
from sojourn.spark.workers import check_workers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from sojourn.spark.checkpoints import Fork

_MOST_SHARDS = 4096
_MOST_MS = 2**62
_PARTITIONS = "spark.sql.shuffle.partitions"
OBSERVED = "sojourn"  # what a batch's numbers are called in a query's progress


def stream_settings(spark: SparkSession, *, shards: int = 32) -> dict[str, str]:
    """Give a session what streams need, where it has not been told otherwise; say what was set.

    Before `resolve_stream`, with the same `shards`. `local_session` does it by itself. Besides the
    state store it is the number of tasks, `spark.sql.shuffle.partitions`: Spark's default of 200
    makes a small stream several times slower. It becomes one task a core, and no more than there
    are shards, since a task without a shard costs time in every batch and does nothing.
    """
    _check_number("shards", shards, 1, _MOST_SHARDS)
    _check_classic(spark)
    cores: int = spark.sparkContext.defaultParallelism
    settings = STREAM_SETTINGS | {_PARTITIONS: str(min(shards, max(1, cores)))}
    missing = {name: value for name, value in settings.items() if not _is_set(spark, name)}
    for name, value in missing.items():
        spark.conf.set(name, value)
    return missing


def resolve_stream(
    operations: DataFrame,
    signals: DataFrame,
    cancels: DataFrame | None = None,
    *,
    delay_ms: int = 10_000,
    shards: int = 32,
    idle: str = "wall",
    follow: str | None = None,
    idle_after_ms: int | None = None,
    ahead_ms: int = 60_000,
    remember_ms: int = 86_400_000,
    forget_keys_after_ms: int | None = None,
    snapshot_every: int = 100,
    fork: Fork | None = None,
) -> StreamResolution:
    """Say how operations end, as they end; streaming DataFrames in, a handle on others out.

    `delay_ms`: how much later than others of its source a row may arrive. Each source has a clock:
    the latest time it has shown, less the delay. An operation is told to have ended when the
    stream's time is past its end; a row at or before that time is late, and rejected.
    `shards`: into how many parts keys and ids are spread. A checkpoint keeps its number; to change
    it, go on in another checkpoint with `fork_checkpoint`.
    `idle`: "wall" for live streams: a source that has brought nothing for `idle_after_ms` on the
    wall (default: the delay) holds nobody up, and when all have been silent for that long, time
    goes on with the wall clock. "event" for old rows: nothing but rows moves time.
    `follow`: time is the clock of the "slowest" source, the default with "wall", so that a backlog
    in one makes nobody late; or of the "fastest", the default with "event", where a source may
    simply have ended.
    `ahead_ms`: with "wall", a row more than this beyond the wall clock when it arrives is from the
    future, and rejected.
    `remember_ms`: for how long, in the time of the rows, an id that ended is known, so that a
    second operation under it is rejected.
    `forget_keys_after_ms`: a key is forgotten when it had neither news nor anyone waiting for so
    long, in the time of the rows; an operation that comes after that sees no progress on it.
    Default: `remember_ms`.
    `snapshot_every`: the most batches between two snapshots of a shard's state.
    `fork`: what `fork_checkpoint` gave: begin with the state of another checkpoint.
    """
    spark = operations.sparkSession
    idle_after_ms = delay_ms if idle_after_ms is None else idle_after_ms
    forget_ms = remember_ms if forget_keys_after_ms is None else forget_keys_after_ms
    _check_number("delay_ms", delay_ms, 0, _MOST_MS)
    _check_number("shards", shards, 1, _MOST_SHARDS)
    _check_number("idle_after_ms", idle_after_ms, 0, _MOST_MS)
    _check_number("ahead_ms", ahead_ms, 0, _MOST_MS)
    _check_number("remember_ms", remember_ms, 0, _MOST_MS)
    _check_number("forget_keys_after_ms", forget_ms, 0, _MOST_MS)
    _check_number("snapshot_every", snapshot_every, 1, 2**31 - 1)
    if idle not in ("wall", "event"):
        raise OutOfRange(f'idle must be "wall" or "event", got {idle!r}')
    if follow not in (None, "slowest", "fastest"):
        raise OutOfRange(f'follow must be "slowest" or "fastest", got {follow!r}')
    tables = {rows.OPERATIONS: operations, rows.SIGNALS: signals}
    if cancels is not None:
        tables[rows.CANCELS] = cancels
    for name, frame in tables.items():
        _check_streaming(name, frame)
    _check_classic(spark)
    _check_session(spark, shards)
    from sojourn.spark.checkpoints import IDS, KEYS
    from sojourn.spark.shards import ENDS_DDL, NEWS_DDL, IdShards, KeyShards, Plan

    columns = _carried(operations)
    sealed = columns.serialize().to_pybytes()
    _look_over(tables)
    check_workers(spark)
    on_wall = idle == "wall"
    plan = Plan(
        name=uuid.uuid4().hex,
        shards=shards,
        rule=Rule(
            sources=tuple(n for n, name in enumerate(SOURCES) if name in tables),
            delay_ms=delay_ms,
            slowest=follow == "slowest" or (follow is None and on_wall),
            idle_after_ms=idle_after_ms if on_wall else None,
        ),
        remember_ms=remember_ms,
        forget_keys_after_ms=forget_ms,
        snapshot_every=snapshot_every,
        columns=sealed,
        order=_in_order(operations.columns),
    )
    with quiet_pyspark():
        incoming = None
        for name, frame in tables.items():
            carried = sealed if name == rows.OPERATIONS else b""
            take = Intake(name, shards, carried, ahead_ms if on_wall else None)
            frame = _with_wall(frame) if on_wall else frame
            part = frame.mapInArrow(take, TAKEN_DDL)
            incoming = part if incoming is None else incoming.union(part)
        assert incoming is not None
        if on_wall:
            beats = spark.readStream.format("rate").option("rowsPerSecond", 1)
            beat = _with_wall(beats.option("numPartitions", 1).load())
            incoming = incoming.union(beat.mapInArrow(Heartbeat(shards), TAKEN_DDL))
        first, second = (
            None if fork is None else fork.initial(stage, shards, option)
            for stage, option in ((KEYS, forget_ms), (IDS, remember_ms))
        )
        news = incoming.groupBy("shard").transformWithState(
            KeyShards(plan), NEWS_DDL, "Append", "None", first
        )
        ends = news.groupBy("shard").transformWithState(
            IdShards(plan), ENDS_DDL, "Append", "None", second
        )
        return StreamResolution(Ends(_observed(ends), sealed, operations.schema, shards))


def _with_wall(frame: DataFrame) -> DataFrame:
    """Return the rows with the time of their batch beside them, as Spark has written it down.

    Spark puts that time as a number into the code that it makes of a plan, and so would compile new
    code in every batch, and warm it up again. Not so within `zip_with`, for which it has no code:
    it interprets what is in there.
    """
    from pyspark.sql import functions as F

    now = F.array(F.current_timestamp())
    return frame.withColumn(WALL, F.zip_with(now, now, lambda at, _: F.unix_millis(at))[0])


def _observed(ends: DataFrame) -> DataFrame:
    """Have each batch's numbers in the query's progress, whatever sink it has."""
    from pyspark.sql import functions as F

    names = (*parcels.COUNTS, *parcels.HOLDINGS)
    sums = [F.sum(name).alias(name) for name in names]
    return ends.observe(OBSERVED, *sums, F.max("time_ms").alias("time_ms"))


class StreamResolution:
    """How the operations of a stream end; what `resolve_stream` gives.

    `outcomes`: id, status, at_ms, by_key, waited_ms, submitted_ms, timeout_ms and the extra columns
    of operations.
    `rejected`: table, reason and row, as JSON.
    `rows`: both in one; `status` is "rejected" for rejected rows, and what is not theirs is null.

    All three are streaming DataFrames, and a query over one of them runs the whole stream: to have
    outcomes and rejected rows of one run use `write`, `write_kafka`, or a sink of your own over
    `rows`. Numbers of each batch are in the query's progress, under `observedMetrics["sojourn"]`.
    """

    def __init__(self, ends: Ends) -> None:
        self.ends = ends

    @property
    def rows(self) -> DataFrame:
        """Outcomes and rejected rows, as rows of one kind."""
        with quiet_pyspark():
            return self.ends.rows(self.ends.parcels)

    @property
    def outcomes(self) -> DataFrame:
        """How operations ended."""
        with quiet_pyspark():
            return self.ends.of_kind(parcels.ENDED, self.ends.parcels)

    @property
    def rejected(self) -> DataFrame:
        """Rows that are invalid, late, duplicates or from the future."""
        with quiet_pyspark():
            return self.ends.of_kind(parcels.REJECTED, self.ends.parcels)

    def write(self, path: str, checkpoint: str, **options: Any) -> StreamingQuery:
        """Start writing to folders; see `write_stream`."""
        from sojourn.spark.sinks import write_stream

        return write_stream(self, path, checkpoint, **options)

    def write_kafka(
        self, servers: str, topic: str, checkpoint: str, **options: Any
    ) -> StreamingQuery:
        """Start sending to a topic; see `write_kafka`."""
        from sojourn.spark.sinks import write_kafka

        return write_kafka(self, servers, topic, checkpoint, **options)


def _carried(operations: DataFrame) -> pa.Schema:
    """Return the schema of what goes through in the payload; say which columns cannot."""
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    carried = {*rows.extra_names(operations.columns), "needed"}
    fields = [field for field in operations.schema if field.name in carried]
    for field in fields:
        if field.name in (*rows.OUTCOME_COLUMNS, *schemas.REJECTED.names):
            raise BadTable(
                f"operations: the column {field.name!r} would pass through to the outcomes, which "
                f"have a column of that name; rename it, e.g. to 'operation_{field.name}'"
            )
    return to_arrow_schema(StructType(fields), timezone="UTC")


def _in_order(columns: list[str]) -> tuple[str, ...]:
    """Return the columns as a late or doubled row is told with: in their order, in milliseconds."""
    ours = {rows.time_name(columns, "submitted"): "submitted_ms"}
    timeout = rows.time_name(columns, "timeout") or rows.time_name(columns, "deadline")
    ours |= {timeout: "timeout_ms", rows.CORRUPT: "", rows.CORRUPT_REASON: ""}
    return tuple(name for name in (ours.get(column, column) for column in columns) if name)


def _look_over(tables: dict[str, DataFrame]) -> None:
    """Say now, not in the first batch, what is wrong with the columns."""
    from pyspark.sql.pandas.types import to_arrow_schema

    for name, frame in tables.items():
        rows.CHECKS[name](to_arrow_schema(frame.schema, timezone="UTC").empty_table())


def _check_streaming(name: str, frame: Any) -> None:
    if not getattr(frame, "isStreaming", False):
        what = "a batch DataFrame" if hasattr(frame, "isStreaming") else repr(frame)
        raise WrongType(
            f"{name} must be a streaming DataFrame, got {what}; read it with spark.readStream, or "
            "use sojourn.spark.resolve for what is there already"
        )


def _check_number(name: str, value: Any, least: int, most: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise WrongType(f"{name} must be an integer, got {value!r}")
    if not least <= value <= most:
        raise OutOfRange(f"{name} must be from {least} to {most}, got {value}")


def _is_set(spark: SparkSession, name: str) -> bool:
    """Say whether somebody has set it, to whatever value; defaults do not count."""
    session: Any = spark
    return bool(session._jsparkSession.sessionState().conf().contains(name))


def _check_classic(spark: SparkSession) -> None:
    """Refuse Spark Connect: its sinks run our code on the server, away from session and folders."""
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        raise SojournError(
            "streams do not run over Spark Connect, and this session is one of it; start a session "
            "with a master (SparkSession.builder.master(…), or spark-submit). "
            "sojourn.spark.resolve, for whole DataFrames, does run over Spark Connect"
        )


def _check_session(spark: SparkSession, shards: int) -> None:
    provider = spark.conf.get(STATE_STORE)
    if provider != ROCKSDB:
        raise SojournError(
            f"streams keep their state in RocksDB, and this session is set to {provider}; call "
            f"sojourn.spark.stream_settings(spark), or set {STATE_STORE} to {ROCKSDB}"
        )
    partitions = int(spark.conf.get(_PARTITIONS) or 0)
    if partitions > shards:
        warnings.warn(
            f"{_PARTITIONS} is {partitions} for {shards} shards: most tasks will "
            f"have nothing to do, and each costs time in every batch; set it to {shards} or fewer, "
            f"or call sojourn.spark.stream_settings(spark, shards={shards}) before it is set",
            stacklevel=3,
        )
