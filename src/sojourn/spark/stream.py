"""The stream: three streaming DataFrames in, one of outcomes and rejected rows out.

    operations ─┐  mapInArrow          transformWithState         mapInArrow
    signals ────┼─ check, lay out ─▶ KeyShards ─▶ IdShards ─▶ unpack ─▶ outcomes, rejected
    cancels ────┤  in bundles        (shards.py)
    heartbeat ──┘  (intake.py)

Spark's watermark is there to run a batch when time has moved although no row has come; what is late
and what ends is decided by the shards. Spark drops late rows in silence where it can see a column
with a watermark, so that column stays out of the bundles.
"""

from __future__ import annotations

import uuid
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sojourn.errors import BadTable, OutOfRange, SojournError, WrongType
from sojourn.replay import rows
from sojourn.spark import bundles
from sojourn.spark.intake import BUNDLES_DDL, Heartbeat, Intake
from sojourn.spark.payload import PayloadFormat
from sojourn.spark.session import quiet_pyspark
from sojourn.spark.workers import check_workers, settle

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
ENDS = "_sojourn_ends"  # the attribute of a DataFrame that says where it comes from
_TOLD = ("table", "reason", "row")
_MOST_SHARDS = 4096

STREAM_SETTINGS = {
    _PROVIDER: _ROCKSDB,
    # A batch writes what changed, not all files of the store.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # How far back a checkpoint reaches, and how often what is older is cleared away.
    "spark.sql.streaming.minBatchesToRetain": "10",
    "spark.sql.streaming.stateStore.maintenanceInterval": "10s",
    # "What is there now, then stop" works although the heartbeat's source does not know of it.
    "spark.sql.streaming.triggerAvailableNowWrapper.enabled": "true",
}


def stream_settings(spark: SparkSession) -> None:
    """Give a session what streams need, where it has not been told otherwise.

    Before `resolve_stream`; `local_session` does it by itself.
    """
    for name, value in STREAM_SETTINGS.items():
        spark.conf.set(name, value)


def resolve_stream(
    operations: DataFrame,
    signals: DataFrame,
    cancels: DataFrame | None = None,
    *,
    delay_ms: int = 10_000,
    shards: int = 32,
    idle: str = "wall",
    remember_ms: int = 86_400_000,
    snapshot_every: int = 100,
) -> DataFrame:
    """Say how operations end, as they end; streaming DataFrames in, one out.

    Its columns: `id, status, at_ms, by_key, waited_ms, submitted_ms, timeout_ms`, the extra columns
    of operations, and `table, reason, row`, which are null unless `status` is "rejected"; then the
    others are null.

    `delay_ms`: how much later than others a row may arrive. A row that comes behind that is late
    and rejected. An operation is told to have ended when time is past its end; time stands
    `delay_ms` behind the latest row.
    `shards`: into how many parts keys and ids are spread. It cannot be changed for a checkpoint.
    `idle`: "wall" lets time go on with the wall clock when nothing has arrived for `delay_ms`;
    "event" lets it stand until something arrives.
    `remember_ms`: for how long, in the time of the rows, an id that ended is known, so that a
    second operation under it is rejected.
    `snapshot_every`: the most batches between two snapshots of a shard's state.
    """
    spark = operations.sparkSession
    _check_number("delay_ms", delay_ms, 0, 2**62)
    _check_number("shards", shards, 1, _MOST_SHARDS)
    _check_number("remember_ms", remember_ms, 0, 2**62)
    _check_number("snapshot_every", snapshot_every, 1, 2**31 - 1)
    if idle not in ("wall", "event"):
        raise OutOfRange(f'idle must be "wall" or "event", got {idle!r}')
    for name, frame in ((rows.OPERATIONS, operations), (rows.SIGNALS, signals)):
        _check_streaming(name, frame)
    if cancels is not None:
        _check_streaming(rows.CANCELS, cancels)
    _check_session(spark, shards)
    from sojourn.spark.shards import ENDS_DDL, NEWS_DDL, IdShards, KeyShards, Plan

    columns = _carried(operations)
    sealed = columns.serialize().to_pybytes()
    _look_over(operations, signals, cancels)
    check_workers(spark)
    plan = Plan(
        name=uuid.uuid4().hex,
        shards=shards,
        delay_ms=delay_ms,
        wall_when_idle=idle == "wall",
        remember_ms=remember_ms,
        snapshot_every=snapshot_every,
        columns=sealed,
        order=_in_order(operations.columns),
    )
    with quiet_pyspark():
        taken = operations.mapInArrow(Intake(rows.OPERATIONS, shards, sealed), BUNDLES_DDL)
        taken = taken.union(signals.mapInArrow(Intake(rows.SIGNALS, shards), BUNDLES_DDL))
        if cancels is not None:
            taken = taken.union(cancels.mapInArrow(Intake(rows.CANCELS, shards), BUNDLES_DDL))
        if idle == "wall":
            beats = spark.readStream.format("rate").option("rowsPerSecond", 1)
            beat = beats.option("numPartitions", 1).load()
            taken = taken.union(beat.mapInArrow(Heartbeat(shards), BUNDLES_DDL))
        told = taken.withWatermark("moment", f"{delay_ms} milliseconds").drop("moment")
        news = told.groupBy("shard").transformWithState(
            KeyShards(plan), NEWS_DDL, "Append", "EventTime"
        )
        ends = news.groupBy("shard").transformWithState(
            IdShards(plan), ENDS_DDL, "Append", "EventTime"
        )
        return Ends(ends, sealed, operations.schema).unpacked()


@dataclass(frozen=True)
class Ends:
    """What the second stage gives: outcomes and rejected rows, still in bundles."""

    bundles: DataFrame
    columns: bytes
    operations: StructType  # as they came

    def unpacked(self) -> DataFrame:
        """Return outcomes and rejected rows as rows of one kind."""
        frame = self.rows(self.bundles)
        # `write_stream` writes each to its own place, and would have to take them apart again.
        setattr(frame, ENDS, self)
        return frame

    def rows(self, batch: DataFrame) -> DataFrame:
        """Return outcomes and rejected rows of a batch of the bundles."""
        ddl = f"{self._outcomes_ddl()}, {_REJECTED_DDL}"
        return batch.mapInArrow(Unpack(self.columns), ddl)

    def outcomes(self, batch: DataFrame) -> DataFrame:
        """Return the outcomes of a batch of the bundles."""
        return batch.mapInArrow(UnpackOutcomes(self.columns), self._outcomes_ddl())

    def rejected(self, batch: DataFrame) -> DataFrame:
        """Return the rejected rows of a batch of the bundles."""
        return batch.mapInArrow(unpack_rejected, _REJECTED_DDL)

    def _outcomes_ddl(self) -> str:
        names = pa.ipc.read_schema(pa.py_buffer(self.columns)).names
        kinds = {field.name: field.dataType.simpleString() for field in self.operations}
        extras = [f"`{n.replace('`', '``')}` {kinds[n]}" for n in names if n != "needed"]
        return ", ".join([_OUTCOMES_DDL, *extras])


_OUTCOMES_DDL = (
    "id string, status string, at_ms long, by_key string, waited_ms long, "
    "submitted_ms long, timeout_ms long"
)
_REJECTED_DDL = "table string, reason string, row string"


@dataclass(frozen=True)
class UnpackOutcomes:
    """Turns bundles of outcomes into rows, passing others over; called by `mapInArrow`."""

    columns: bytes

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        form = PayloadFormat(pa.ipc.read_schema(pa.py_buffer(self.columns)))
        for kind, found in _opened(batches):
            if kind == bundles.OUTCOMES:
                yield _ended(found, form)


def unpack_rejected(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Turn bundles of rejected rows into rows, passing others over; called by `mapInArrow`."""
    for kind, found in _opened(batches):
        if kind == bundles.REJECTED:
            yield found


@dataclass(frozen=True)
class Unpack:
    """Turns bundles of outcomes and rejected rows into rows of one kind."""

    columns: bytes

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        form = PayloadFormat(pa.ipc.read_schema(pa.py_buffer(self.columns)))
        for kind, found in _opened(batches):
            if kind == bundles.OUTCOMES:
                ended = _ended(found, form)
                nothing = [pa.nulls(found.num_rows, pa.string())] * len(_TOLD)
                names = [*ended.schema.names, *_TOLD]
                yield pa.record_batch([*ended.columns, *nothing], names=names)
            else:
                yield _told(found, form)


def _opened(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
    settle()
    for batch in batches:
        kinds, bodies = batch.column("kind").to_pylist(), batch.column("body").to_pylist()
        for kind, body in zip(kinds, bodies, strict=True):
            yield kind, bundles.unseal(kind, body)


def _ended(found: pa.RecordBatch, form: PayloadFormat) -> pa.RecordBatch:
    names = [*rows.STREAM_OUTCOME_COLUMNS]
    arrays = [found.column(name) for name in names]
    carried = form.decode(found.column("payload"))
    for name in carried.column_names:
        if name != "needed":
            names.append(name)
            arrays.append(carried.column(name).combine_chunks())
    return pa.record_batch(arrays, names=names)


def _told(found: pa.RecordBatch, form: PayloadFormat) -> pa.RecordBatch:
    extras = [field for field in form.columns if field.name != "needed"]
    count = found.num_rows
    text, number = pa.nulls(count, pa.string()), pa.nulls(count, pa.int64())
    status = pa.repeat(pa.scalar("rejected"), count)
    arrays = [text, status, number, text, number, number, number]
    arrays += [pa.nulls(count, f.type) for f in extras]
    names = [*rows.STREAM_OUTCOME_COLUMNS, *(f.name for f in extras), *_TOLD]
    return pa.record_batch([*arrays, *found.columns], names=names)


def _carried(operations: DataFrame) -> pa.Schema:
    """Return the schema of what goes through in the payload; say which columns cannot."""
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    carried = {*rows.extra_names(operations.columns), "needed"}
    found = [field for field in operations.schema if field.name in carried]
    for field in found:
        if field.name in (*rows.OUTCOME_COLUMNS, *_TOLD):
            raise BadTable(
                f"operations: the column {field.name!r} would pass through to the outcomes, which "
                f"have a column of that name; rename it, e.g. to 'operation_{field.name}'"
            )
    return to_arrow_schema(StructType(found), timezone="UTC")


def _in_order(columns: list[str]) -> tuple[str, ...]:
    """Return the columns as a late or doubled row is told with: in their order, in milliseconds."""
    ours = {rows.time_name(columns, "submitted"): "submitted_ms"}
    timeout = rows.time_name(columns, "timeout") or rows.time_name(columns, "deadline")
    ours |= {timeout: "timeout_ms", rows.CORRUPT: "", rows.CORRUPT_REASON: ""}
    return tuple(name for name in (ours.get(column, column) for column in columns) if name)


def _look_over(operations: DataFrame, signals: DataFrame, cancels: DataFrame | None) -> None:
    """Say now, not in the first batch, what is wrong with the columns."""
    from pyspark.sql.pandas.types import to_arrow_schema

    frames = {rows.OPERATIONS: operations, rows.SIGNALS: signals, rows.CANCELS: cancels}
    for name, frame in frames.items():
        if frame is not None:
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


def _check_session(spark: SparkSession, shards: int) -> None:
    provider = spark.conf.get(_PROVIDER)
    if provider != _ROCKSDB:
        raise SojournError(
            f"streams keep their state in RocksDB, and this session is set to {provider}; call "
            f"sojourn.spark.stream_settings(spark), or set {_PROVIDER} to {_ROCKSDB}"
        )
    partitions = int(spark.conf.get("spark.sql.shuffle.partitions") or 0)
    if partitions > shards:
        warnings.warn(
            f"spark.sql.shuffle.partitions is {partitions} for {shards} shards: most tasks will "
            f"have nothing to do, and each costs time in every batch; set it to {shards} or fewer",
            stacklevel=3,
        )
