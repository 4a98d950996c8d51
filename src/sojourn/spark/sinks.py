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

from sojourn.errors import OutOfRange, SojournError
from sojourn.spark.session import quiet_pyspark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_TOLD = ("table", "reason", "row")
_STATUSES = ("completed", "expired", "cancelled", "rejected")

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
    with quiet_pyspark():
        writer = out.writeStream.foreachBatch(_Folders(path, format, on_batch))
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
        self, path: str, format: str, on_batch: Callable[[int, Counts], None] | None
    ) -> None:
        self._path = path.rstrip("/")
        self._format = format
        self._on_batch = on_batch

    def __call__(self, batch: DataFrame, number: int) -> None:
        from pyspark.sql import Observation
        from pyspark.sql import functions as F

        files = _Files(batch, self._path)
        self._claim(batch, files)
        # Counted on the way, which saves a job; kept, since there are two places to go to.
        counted = Observation()
        each = [F.count(F.when(F.col("status") == s, 1)).alias(s) for s in _STATUSES]
        kept = batch.observe(counted, *each).persist()
        try:
            is_rejected = F.col("status") == "rejected"
            self._aside("outcomes", number, kept.where(~is_rejected).drop(*_TOLD))
            counts: Counts = counted.get
            rejected = counts["rejected"]
            if number == 0 or rejected:
                self._aside("rejected", number, kept.where(is_rejected).select(*_TOLD))
                self._place(files, "rejected", number)
            if number == 0 or sum(counts.values()) > rejected:
                self._place(files, "outcomes", number)
        finally:
            kept.unpersist()
        if self._on_batch is not None:
            self._on_batch(number, counts)

    def _aside(self, name: str, number: int, part: DataFrame) -> None:
        aside = f"{self._path}/_staging/{name}/batch={number}"
        part.write.mode("overwrite").format(self._format).save(aside)

    def _place(self, files: _Files, name: str, number: int) -> None:
        if not files.exists(f"{name}/batch={number}"):
            files.move(f"_staging/{name}/batch={number}", f"{name}/batch={number}")

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
