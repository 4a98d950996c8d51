"""Sinks: outcomes and rejected rows into folders, each batch exactly once; or into Kafka.

Spark's own file sink keeps a list of the files that count, which only Spark reads: to any other
reader a batch that was cut short and run again is there twice. Here a batch is written aside and
then takes its place in one rename:

    OUT/outcomes/batch=12/part-….parquet     whole, or not there
    OUT/rejected/batch=12/part-….parquet
    OUT/_staging/                            what is being written
    OUT/_sojourn                             the query whose results these are

A batch that runs again comes to the same rows, so a folder that is there already is left alone, and
so is what a topic holds already.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sojourn.errors import OutOfRange, SojournError, WrongType
from sojourn.spark.bundles import STATUSES
from sojourn.spark.folders import Folder
from sojourn.spark.session import quiet_pyspark
from sojourn.spark.stream import ENDS
from sojourn.spark.topics import Topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from sojourn.spark.stream import Ends

Counts = dict[str, int]

_NOTES = "sojourn-sent"


def write_stream(
    out: DataFrame,
    path: str,
    checkpoint: str,
    *,
    trigger: str | None = "1 second",
    format: str = "parquet",
    on_batch: Callable[[int, Counts], None] | None = None,
) -> StreamingQuery:
    """Start writing what `resolve_stream` gave to PATH/outcomes and PATH/rejected; exactly once.

    Whoever reads the folders, with Spark or anything else, sees each batch whole or not at all, and
    never twice, also when the driver was killed and started again with the same checkpoint. The
    first batch is written even if it is empty, so that there are columns to read.

    `trigger`: how often a batch is begun ("1 second", "1 minute"), or None to take what is there
    now and stop. `format`: "parquet" or "json". `on_batch` is called after each batch with its
    number and how many rows it had of each status.
    """
    if format not in ("parquet", "json"):
        raise OutOfRange(f'format must be "parquet" or "json", got {format!r}')
    ends = _ends_of(out, "write_stream")
    with quiet_pyspark():
        writer = ends.bundles.writeStream.foreachBatch(_Folders(ends, path, format, on_batch))
        return _start(writer, checkpoint, trigger)


def write_kafka(
    out: DataFrame,
    servers: str,
    topic: str,
    checkpoint: str,
    *,
    trigger: str | None = "1 second",
    on_batch: Callable[[int, Counts], None] | None = None,
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
    known = {**(options or {}), "kafka.bootstrap.servers": servers}
    with quiet_pyspark():
        sent = _Sent(ends, Topic(topic, known), checkpoint, on_batch)
        return _start(ends.bundles.writeStream.foreachBatch(sent), checkpoint, trigger)


def to_kafka(out: DataFrame) -> DataFrame:
    """Return messages: `key` the operation's id, `value` the row as JSON without what is null."""
    from pyspark.sql import functions as F

    return out.select(F.col("id").alias("key"), F.to_json(F.struct("*")).alias("value"))


def _ends_of(out: DataFrame, taker: str) -> Ends:
    ends: Ends | None = getattr(out, ENDS, None)
    if ends is None:
        raise WrongType(
            f"{taker} takes the DataFrame that resolve_stream gave, as it is; write one that "
            "you have changed with its own writeStream"
        )
    return ends


def _start(writer: DataStreamWriter, checkpoint: str, trigger: str | None) -> StreamingQuery:
    writer = writer.outputMode("append").option("checkpointLocation", checkpoint)
    if trigger is None:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=trigger).start()


class _Sink:
    """Takes one batch; called by Spark in the driver."""

    def __init__(self, ends: Ends, on_batch: Callable[[int, Counts], None] | None) -> None:
        self._ends = ends
        self._on_batch = on_batch

    def __call__(self, batch: DataFrame, number: int) -> None:
        # Kept, since it is looked at more than once; in bundles that is cheap.
        kept = batch.persist()
        try:
            counts = dict.fromkeys(STATUSES, 0)
            for row in kept.select(*STATUSES).collect():
                for status in STATUSES:
                    counts[status] += row[status]
            with quiet_pyspark():
                self._take(kept, number, counts)
        finally:
            kept.unpersist()
        if self._on_batch is not None:
            self._on_batch(number, counts)

    def _take(self, kept: DataFrame, number: int, counts: Counts) -> None:
        raise NotImplementedError


class _Folders(_Sink):
    """Writes batches to folders."""

    def __init__(
        self, ends: Ends, path: str, format: str, on_batch: Callable[[int, Counts], None] | None
    ) -> None:
        super().__init__(ends, on_batch)
        self._path = path.rstrip("/")
        self._format = format

    def _take(self, kept: DataFrame, number: int, counts: Counts) -> None:
        folder = Folder(kept.sparkSession, self._path)
        self._claim(kept, folder)
        rejected = counts["rejected"]
        if number == 0 or sum(counts.values()) > rejected:
            self._put(folder, "outcomes", number, self._ends.outcomes(kept))
        if number == 0 or rejected:
            self._put(folder, "rejected", number, self._ends.rejected(kept))

    def _put(self, folder: Folder, name: str, number: int, part: DataFrame) -> None:
        place = f"{name}/batch={number}"
        if folder.exists(place):
            return
        part.write.mode("overwrite").format(self._format).save(f"{self._path}/_staging/{place}")
        folder.move(f"_staging/{place}", place)

    def _claim(self, batch: DataFrame, folder: Folder) -> None:
        """See that the folder is of this query: its batches are told apart by number alone."""
        ours = batch.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId") or ""
        found = folder.read("_sojourn")
        if found is None:
            if folder.exists("outcomes") or folder.exists("rejected"):
                raise SojournError(
                    f"{self._path} holds outcomes or rejected rows that no stream has written; "
                    "choose another folder, or empty it"
                )
            folder.write("_sojourn", ours)
        elif found != ours:
            raise SojournError(
                f"{self._path} holds the results of query {found}, and this is query {ours}; use "
                "the checkpoint that they were written with, or another folder"
            )


class _Sent(_Sink):
    """Sends batches to a topic.

    Where the topic ended before a batch was sent is written down beside the checkpoint. A batch
    that finds that note runs for the second time: what the topic holds behind it got through.
    """

    def __init__(
        self,
        ends: Ends,
        topic: Topic,
        checkpoint: str,
        on_batch: Callable[[int, Counts], None] | None,
    ) -> None:
        super().__init__(ends, on_batch)
        self._topic = topic
        self._checkpoint = checkpoint

    def _take(self, kept: DataFrame, number: int, counts: Counts) -> None:
        if not any(counts.values()):
            return
        spark = kept.sparkSession
        folder = Folder(spark, self._checkpoint)
        messages = to_kafka(self._ends.rows(kept))
        note = folder.read(f"{_NOTES}/{number}")
        if note is None:
            folder.remove(_NOTES)  # those of batches before this one
            folder.write(f"{_NOTES}/{number}", self._topic.ends(spark))
        else:
            messages = messages.exceptAll(self._topic.since(spark, note))
        self._topic.send(messages)
