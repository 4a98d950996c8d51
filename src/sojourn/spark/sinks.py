"""Sinks: write outcomes and rejected rows to folders, each batch exactly once; or to Kafka.

Spark's own file sink keeps a list of the valid files, which only Spark reads: any other reader sees
a batch that was interrupted and run again twice. Here a batch is written aside, then moved to its
place, and noted as complete when all of it is there:

    OUT/outcomes/batch=12/part-….parquet
    OUT/rejected/batch=12/part-….parquet
    OUT/_complete/12                         written last: all of batch 12 is in its place
    OUT/_staging/                            what is being written
    OUT/_sojourn                             the query whose results these are

If the file system can rename, a move is one rename: a batch is there whole, or not at all. On
object stores a move copies each file and deletes the old ones, and a kill can interrupt it
anywhere. So files without the note do not count: when the batch runs again, it comes to the same
rows, removes these files and writes its own. Rows that a topic has already are not sent again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sojourn.errors import OutOfRange, SojournError, WrongType
from sojourn.spark import driver_files, parcels
from sojourn.spark.driver_files import DriverFiles
from sojourn.spark.ends import Ends
from sojourn.spark.folders import Folder
from sojourn.spark.parcels import COUNTS, HOLDINGS
from sojourn.spark.session import quiet_pyspark
from sojourn.spark.topics import Topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from sojourn.spark.stream import StreamResolution

_NOTES = "sojourn-sent"
_COMPLETE = "_complete"


@dataclass(frozen=True)
class StreamBatch:
    """What a batch brought, and what the stream holds after it.

    `ids` are those of operations that wait, of those that ended and are remembered, and of cancels
    that came before their operation. `time_ms` is the stream's time; None before the first.
    """

    number: int
    completed: int
    expired: int
    cancelled: int
    rejected: int
    keys: int
    ids: int
    operations: int  # that wait
    time_ms: int | None

    @property
    def counts(self) -> dict[str, int]:
        """How many rows it brought of each status."""
        return {status: getattr(self, status) for status in COUNTS}


OnBatch = Callable[[StreamBatch], None]


def write_stream(
    out: StreamResolution,
    path: str,
    checkpoint: str,
    *,
    trigger: str | None = "1 second",
    format: str = "parquet",
    on_batch: OnBatch | None = None,
) -> StreamingQuery:
    """Start writing what `resolve_stream` gave to PATH/outcomes and PATH/rejected; exactly once.

    Whoever reads the folders, with Spark or anything else, sees each batch whole or not at all, and
    never twice, also when the driver was killed and started again with the same checkpoint. On an
    object store a reader can see a batch while it is being moved; PATH/_complete holds a file named
    after the last batch that is whole. The first batch is written even if it is empty, so that
    there are columns to read.

    `trigger`: how often a batch is begun ("1 second", "1 minute"), or None to take what is there
    now and stop. `format`: "parquet" or "json". `on_batch` is called after each batch with a
    `StreamBatch`: how many rows it had of each status, and how much the stream holds.
    """
    if format not in ("parquet", "json"):
        raise OutOfRange(f'format must be "parquet" or "json", got {format!r}')
    ends = _ends_of(out, "write_stream")
    with quiet_pyspark():
        writer = ends.parcels.writeStream.foreachBatch(_FolderSink(ends, path, format, on_batch))
        return _start(ends.parcels.sparkSession, writer, checkpoint, trigger)


def write_kafka(
    out: StreamResolution,
    servers: str,
    topic: str,
    checkpoint: str,
    *,
    trigger: str | None = "1 second",
    on_batch: OnBatch | None = None,
    options: dict[str, str] | None = None,
) -> StreamingQuery:
    """Start sending what `resolve_stream` gave to a topic.

    A message has the operation's id for its key, and the row as JSON for its value.
    Each row is sent once, also when the driver was killed and started again with the same
    checkpoint: a batch that is run again sends what the topic does not hold yet. For that the topic
    has to keep its records for as long as a restart takes. On a cluster it also takes that no task
    of the former driver still runs, since Spark's connector has no transactions to fence it off.

    `options` go to the connector as they are, e.g. "kafka.security.protocol". For `trigger` and
    `on_batch` see `write_stream`.
    """
    ends = _ends_of(out, "write_kafka")
    all_options = {**(options or {}), "kafka.bootstrap.servers": servers}
    with quiet_pyspark():
        sink = _TopicSink(ends, Topic(topic, all_options), checkpoint, on_batch)
        writer = ends.parcels.writeStream.foreachBatch(sink)
        return _start(ends.parcels.sparkSession, writer, checkpoint, trigger)


def to_kafka(out: DataFrame) -> DataFrame:
    """Return messages: `key` the operation's id, `value` the row as JSON without what is null."""
    from pyspark.sql import functions as F

    return out.select(F.col("id").alias("key"), F.to_json(F.struct("*")).alias("value"))


def _ends_of(out: StreamResolution, taker: str) -> Ends:
    ends = getattr(out, "ends", None)
    if not isinstance(ends, Ends):
        raise WrongType(
            f"{taker} takes what resolve_stream gave, got {type(out).__name__}; write a DataFrame "
            "that you have made of it with its own writeStream"
        )
    return ends


def _start(
    spark: SparkSession, writer: DataStreamWriter, checkpoint: str, trigger: str | None
) -> StreamingQuery:
    _clear_first_offsets(Folder(spark, checkpoint))
    writer = writer.outputMode("append").option("checkpointLocation", checkpoint)
    if trigger is None:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=trigger).start()


def _clear_first_offsets(checkpoint: Folder) -> None:
    """Remove what is left of the first offsets, if a kill cut short their writing.

    Nothing had been begun then, but Spark takes the file for a checkpoint that has lost its
    offsets, and refuses it.
    """
    names = checkpoint.names("offsets")
    if all(name.startswith(".") for name in names):  # all of them were being written
        for name in names:
            checkpoint.remove(f"offsets/{name}")


class _Sink:
    """Takes one batch; called by Spark in the driver."""

    _most_bytes = -1  # of a parcel that is to come to the driver

    def __init__(self, ends: Ends, on_batch: OnBatch | None) -> None:
        self._ends = ends
        self._on_batch = on_batch

    def __call__(self, batch: DataFrame, number: int) -> None:
        # Kept, since it may be looked at more than once; in parcels that is cheap.
        kept = batch.persist()
        try:
            with quiet_pyspark():
                collected = _Collected.of(kept, number, self._most_bytes)
                self._take(kept, collected)
        finally:
            kept.unpersist()
        if self._on_batch is not None:
            self._on_batch(collected.report)

    def _take(self, batch: DataFrame, collected: _Collected) -> None:
        raise NotImplementedError


@dataclass(frozen=True)
class _Collected:
    """What comes to the driver of a batch: its numbers, and its rows if they are few."""

    report: StreamBatch
    bodies: dict[int, list[bytes] | None]  # of parcels by kind; None: some are large

    @classmethod
    def of(cls, batch: DataFrame, number: int, most_bytes: int) -> _Collected:
        from pyspark.sql import functions as F

        names = (*COUNTS, *HOLDINGS)
        sums = dict.fromkeys(names, 0)
        time_ms = None
        bodies: dict[int, list[bytes] | None] = {parcels.ENDED: [], parcels.REJECTED: []}
        small = F.when(F.length("body") <= most_bytes, F.col("body")).alias("body")
        for row in batch.select("kind", *names, "time_ms", small).collect():
            for name in names:
                sums[name] += row[name]
            kind, body = row["kind"], row["body"]
            if kind == parcels.HELD:
                time_ms = row["time_ms"]
            elif body is None:
                bodies[kind] = None
            elif (small_bodies := bodies[kind]) is not None:
                small_bodies.append(bytes(body))
        return cls(StreamBatch(number=number, time_ms=time_ms, **sums), bodies)


class _FolderSink(_Sink):
    """Writes batches to folders."""

    def __init__(self, ends: Ends, path: str, format: str, on_batch: OnBatch | None) -> None:
        super().__init__(ends, on_batch)
        self._path = path.rstrip("/")
        self._format = format
        if format == "parquet":
            self._most_bytes = driver_files.MOST_BYTES // ends.shards
        self._is_ours = False  # not known yet
        self._files: dict[int, DriverFiles | None] = {}  # by kind of parcel, once it is known

    def _take(self, batch: DataFrame, collected: _Collected) -> None:
        folder = Folder(batch.sparkSession, self._path)
        if not self._is_ours:
            self._claim(batch, folder)
            self._is_ours = True
        report, number = collected.report, collected.report.number
        if folder.exists(f"{_COMPLETE}/{number}"):
            return
        ended = report.completed + report.expired + report.cancelled
        if number == 0 or ended:
            self._put(folder, "outcomes", parcels.ENDED, batch, collected)
        if number == 0 or report.rejected:
            self._put(folder, "rejected", parcels.REJECTED, batch, collected)
        folder.write(f"{_COMPLETE}/{number}", "")
        folder.remove(f"{_COMPLETE}/{number - 1}")

    def _put(
        self, folder: Folder, name: str, kind: int, batch: DataFrame, collected: _Collected
    ) -> None:
        place = f"{name}/batch={collected.report.number}"
        aside = f"_staging/{place}"
        for leftover in (place, aside):  # of a run that was killed
            folder.remove(leftover)
        file = self._file(kind, batch, collected.bodies[kind])
        if file is None:
            self._ends.of_kind(kind, batch).write.format(self._format).save(f"{self._path}/{aside}")
        else:
            folder.create(f"{aside}/part-00000.parquet", file)
        folder.move(aside, place)

    def _file(self, kind: int, batch: DataFrame, bodies: list[bytes] | None) -> bytes | None:
        """Return the file that the driver makes of a batch; None if Spark has to write it."""
        if bodies is None:
            return None
        if kind not in self._files:
            columns = self._ends.of_kind(kind, batch).schema
            self._files[kind] = DriverFiles.of(batch.sparkSession, columns)
        files = self._files[kind]
        return None if files is None else files.file(self._ends.table(kind, bodies))

    def _claim(self, batch: DataFrame, folder: Folder) -> None:
        """Claim the folder for this query, or raise: batches are told apart by number alone."""
        ours = batch.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId") or ""
        owner = folder.read("_sojourn")
        if owner is None:
            if folder.exists("outcomes") or folder.exists("rejected"):
                raise SojournError(
                    f"{self._path} holds outcomes or rejected rows that no stream has written; "
                    "choose another folder, or empty it"
                )
            folder.write("_sojourn", ours)
        elif owner != ours:
            raise SojournError(
                f"{self._path} holds the results of query {owner}, and this is query {ours}; use "
                "the checkpoint that they were written with, or another folder"
            )


class _TopicSink(_Sink):
    """Sends batches to a topic.

    Before a batch is sent, the end of the topic is noted beside the checkpoint. A batch that
    finds that note runs for the second time: what the topic has behind it was sent before.
    """

    def __init__(
        self,
        ends: Ends,
        topic: Topic,
        checkpoint: str,
        on_batch: OnBatch | None,
    ) -> None:
        super().__init__(ends, on_batch)
        self._topic = topic
        self._checkpoint = checkpoint

    def _take(self, batch: DataFrame, collected: _Collected) -> None:
        number = collected.report.number
        if not any(collected.report.counts.values()):
            return
        spark = batch.sparkSession
        folder = Folder(spark, self._checkpoint)
        messages = to_kafka(self._ends.rows(batch))
        note = folder.read(f"{_NOTES}/{number}")
        if note is None:
            folder.remove(_NOTES)  # those of batches before this one
            folder.write(f"{_NOTES}/{number}", self._topic.ends(spark))
        else:
            messages = messages.exceptAll(self._topic.since(spark, note))
        self._topic.send(messages)
