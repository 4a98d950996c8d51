"""Sinks: outcomes and rejected rows into folders, each batch exactly once; or into Kafka.

Spark's own file sink keeps a list of the files that count, which only Spark reads: to any other
reader a batch that was cut short and run again is there twice. Here a batch is written aside and
then takes its place in one rename:

    OUT/outcomes/batch=12/part-….parquet     whole, or not there
    OUT/rejected/batch=12/part-….parquet
    OUT/_staging/                            what is being written
    OUT/_sojourn                             the query whose results these are

A batch that runs again comes to the same rows, so a folder that is there already is left alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sojourn.errors import OutOfRange, SojournError, WrongType
from sojourn.spark.bundles import STATUSES
from sojourn.spark.session import quiet_pyspark
from sojourn.spark.stream import ENDS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from sojourn.spark.stream import Ends

Counts = dict[str, int]


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
    ends = getattr(out, ENDS, None)
    if ends is None:
        raise WrongType(
            "write_stream takes the DataFrame that resolve_stream gave, as it is; write one that "
            "you have changed with its own writeStream"
        )
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
    options: dict[str, str] | None = None,
) -> StreamingQuery:
    """Start sending what `resolve_stream` gave to a topic, as JSON.

    At least once: Spark's Kafka connector has no transactions, so a batch that is run again is sent
    again. A reader tells by `id` and `status` what it has seen.
    """
    with quiet_pyspark():
        writer = to_kafka(out).writeStream.format("kafka").options(**(options or {}))
        writer = writer.option("kafka.bootstrap.servers", servers).option("topic", topic)
        return _start(writer, checkpoint, trigger)


def to_kafka(out: DataFrame) -> DataFrame:
    """Return messages: `key` the operation's id, `value` the row as JSON without what is null."""
    from pyspark.sql import functions as F

    return out.select(F.col("id").alias("key"), F.to_json(F.struct("*")).alias("value"))


def _start(writer: DataStreamWriter, checkpoint: str, trigger: str | None) -> StreamingQuery:
    writer = writer.outputMode("append").option("checkpointLocation", checkpoint)
    if trigger is None:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=trigger).start()


class _Folders:
    """Writes one batch; called by Spark in the driver."""

    def __init__(
        self, ends: Ends, path: str, format: str, on_batch: Callable[[int, Counts], None] | None
    ) -> None:
        self._ends = ends
        self._path = path.rstrip("/")
        self._format = format
        self._on_batch = on_batch

    def __call__(self, batch: DataFrame, number: int) -> None:
        files = _Files(batch, self._path)
        self._claim(batch, files)
        # Kept, since there are two places to go to; in bundles that is cheap.
        kept = batch.persist()
        try:
            counts = dict.fromkeys(STATUSES, 0)
            for row in kept.select(*STATUSES).collect():
                for status in STATUSES:
                    counts[status] += row[status]
            rejected = counts["rejected"]
            with quiet_pyspark():
                if number == 0 or sum(counts.values()) > rejected:
                    self._put(files, "outcomes", number, self._ends.outcomes(kept))
                if number == 0 or rejected:
                    self._put(files, "rejected", number, self._ends.rejected(kept))
        finally:
            kept.unpersist()
        if self._on_batch is not None:
            self._on_batch(number, counts)

    def _put(self, files: _Files, name: str, number: int, part: DataFrame) -> None:
        place = f"{name}/batch={number}"
        if files.exists(place):
            return
        part.write.mode("overwrite").format(self._format).save(f"{self._path}/_staging/{place}")
        files.move(f"_staging/{place}", place)

    def _claim(self, batch: DataFrame, files: _Files) -> None:
        """See that the folder is of this query: its batches are told apart by number alone."""
        ours = batch.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId") or ""
        found = files.read("_sojourn")
        if found is None:
            if files.exists("outcomes") or files.exists("rejected"):
                raise SojournError(
                    f"{self._path} holds outcomes or rejected rows that no stream has written; "
                    "choose another folder, or empty it"
                )
            files.write("_sojourn", ours)
        elif found != ours:
            raise SojournError(
                f"{self._path} holds the results of query {found}, and this is query {ours}; use "
                "the checkpoint that they were written with, or another folder"
            )


class _Files:
    """A folder on whatever file system Spark reaches: a disk, HDFS, an object store."""

    def __init__(self, batch: DataFrame, path: str) -> None:
        session: Any = batch.sparkSession
        self._jvm = session._jvm
        self._path = path
        self._system = self._at("").getFileSystem(session._jsc.hadoopConfiguration())

    def exists(self, place: str) -> bool:
        return bool(self._system.exists(self._at(place)))

    def move(self, place: str, to: str) -> None:
        self._system.mkdirs(self._at(to).getParent())
        if not self._system.rename(self._at(place), self._at(to)):
            raise SojournError(f"{self._path}/{place} could not be renamed to {self._path}/{to}")

    def read(self, place: str) -> str | None:
        if not self.exists(place):
            return None
        stream = self._system.open(self._at(place))
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write(self, place: str, text: str) -> None:
        aside = f"_staging/{place}"
        stream = self._system.create(self._at(aside), True)
        try:
            stream.write(text.encode())
        finally:
            stream.close()
        self.move(aside, place)

    def _at(self, place: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self._path}/{place}".rstrip("/"))
