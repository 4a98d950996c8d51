"""The direct path: a task reads its files and writes its answers itself, without the JVM.

Otherwise Spark takes rows one by one into the JVM and sends them to Python as Arrow, and the same
again for the answers. Here a task gets only the number of its part, and the rows stay Arrow from
file to file:

    part 7 ── read ── end_operations ── write part-00007.parquet ── "done"

It is the broadcast path (broadcast.py) with another source and another sink. The driver must see
the files that tasks write, so this path is for a session on one machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark import TaskContext
from pyspark.sql.pandas.types import from_arrow_schema

from sojourn.replay import rows
from sojourn.replay.string_hashes import hashes
from sojourn.spark import answers, broadcast, strategies
from sojourn.spark.answers import Answers
from sojourn.spark.ddl import ddl
from sojourn.spark.frames import HASHES, Hashes, Stage, Tables
from sojourn.spark.session import is_one_process, quiet_pyspark
from sojourn.spark.stages import Job
from sojourn.spark.workers import check_workers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from sojourn.spark.tables import FileTable

_DONE = pa.schema([("part", pa.int32())])
# So many rows are written at a time, and become a row group.
_GROUP_ROWS = 1 << 19


def resolve_files(file_tables: dict[str, FileTable], until_ms: int | None, to: Path) -> bool:
    """Resolve tables in files and write the answers into folders of `to`; say whether it was done.

    It is not done, and nothing written, if workers may not see the same files, or if signals are
    too many for a broadcast.
    """
    session = file_tables[rows.OPERATIONS].tasks.sparkSession
    context: Any = getattr(session, "_sc", None)
    if context is None or not is_one_process(context.master):
        return False
    parts = {name: Parts.of(table) for name, table in file_tables.items()}
    tables = Tables(parts[rows.OPERATIONS], parts[rows.SIGNALS], parts.get(rows.CANCELS))
    cores = max(1, context.defaultParallelism)
    if not strategies.suits_broadcast(tables, cores):
        return False
    check_workers(session)
    columns = file_tables[rows.OPERATIONS].columns
    names = rows.extra_names(columns.names)
    with quiet_pyspark():
        extras = [field for field in from_arrow_schema(columns) if field.name in names]
        schema = answers.spark_schema(extras, may_wait=until_ms is not None)
        maker = Answers(answers.arrow_schema(schema))
        job = Job(
            cores, until_ms, {name: table.columns for name, table in file_tables.items()}, maker
        )
        folder = Folder(to, maker)
        try:
            done, rejected = broadcast.resolved(
                tables, job, broadcast.LIMITS, ddl(_DONE), folder.then_write
            )
        except broadcast.TooMany:
            return False
        done.collect()
    folder.complete(rejected)
    return True


def then(first: Stage, second: Stage) -> Stage:
    """One stage after another, in the same task."""
    return lambda batches: second(first(batches))


@dataclass(frozen=True, slots=True)
class Parts:
    """A table whose parts the tasks read by themselves.

    `tasks` has a row for each part, and `read` makes the rows of the table of them; `read_ids`
    only their ids, as the first column.
    """

    tasks: DataFrame
    read: Stage
    read_ids: Stage
    known_bytes: int | None

    @classmethod
    def of(cls, table: FileTable) -> Parts:
        return cls(table.tasks, table.reader, table.reader.read_ids, table.bytes)

    @property
    def session(self) -> SparkSession:
        return self.tasks.sparkSession

    def mapped(self, stage: Stage, schema: StructType | str) -> DataFrame:
        return self.tasks.mapInArrow(then(self.read, stage), schema)

    def hashed(self, stage: Stage, schema: StructType | str) -> DataFrame:
        return self.tasks.mapInArrow(then(then(self.read_ids, _hashed), stage), schema)

    def split(self, hashes: Hashes) -> tuple[Parts, Parts]:
        others, these = (
            replace(self, read=then(self.read, partial(_chosen, hashes, are_these)))
            for are_these in (False, True)
        )
        return others, these


def _chosen(
    hashes: Hashes, are_these: bool, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Of all rows those whose ids have one of the hashes, or the others."""
    for batch in batches:
        ids = batch.column("id")
        with_id = np.flatnonzero(np.asarray(ids.is_valid()))
        has_hash = np.zeros(len(ids), dtype=np.bool_)
        has_hash[with_id] = np.isin(_hashes(ids.take(pa.array(with_id))), hashes)
        yield batch.filter(pa.array(has_hash == are_these))


def _hashed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield pa.record_batch([_hashes(batch.column(0).drop_null())], schema=HASHES)


def _hashes(ids: pa.Array) -> Hashes:
    return hashes(ids).view(np.int64)


@dataclass(frozen=True, slots=True)
class Folder:
    """Where the answers are written: a folder for each kind of rows."""

    path: Path
    maker: Answers

    def then_write(self, stage: Stage) -> Stage:
        """A stage whose rows are written by the task that makes them."""
        return then(stage, self.write)

    def write(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write the rows into files of this task's own; one row says that it is done."""
        context = TaskContext.get()
        part = context.partitionId() if context else 0
        self._write(batches, f"part-{part:05}.parquet")
        yield pa.record_batch([pa.array([part], pa.int32())], schema=_DONE)

    def complete(self, rejected: pa.Table) -> None:
        """Write what no task has: rejected rows, and for kinds without rows a file without."""
        self._write(self.maker.rejected(rejected), "part-driver.parquet")
        for kind in answers.KINDS.values():
            if not any((self.path / kind.folder).iterdir()):
                nothing = kind.table([], self.maker.schema)
                pq.write_table(nothing, self.path / kind.folder / "part-00000.parquet")

    def _write(self, batches: Iterable[pa.RecordBatch], name: str) -> None:
        with ExitStack() as stack:
            files = {
                kind: stack.enter_context(_File(self.path / of_kind.folder, name, of_kind))
                for kind, of_kind in answers.KINDS.items()
            }
            for batch in batches:
                column = batch.column("kind")
                kinds = column.unique().to_pylist()
                for kind in kinds:
                    some = batch if len(kinds) == 1 else batch.filter(pc.equal(column, kind))
                    files[kind].add(some)


class _File:
    """A file of rows of one kind; without rows there is none."""

    def __init__(self, folder: Path, name: str, kind: answers.Kind) -> None:
        self._folder, self._name, self._kind = folder, name, kind
        self._waiting: list[pa.RecordBatch] = []
        self._rows = 0
        self._writer: pq.ParquetWriter | None = None

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(self, *_: object) -> None:
        try:
            if self._waiting:
                self._flush()
        finally:
            if self._writer is not None:
                self._writer.close()

    def add(self, batch: pa.RecordBatch) -> None:
        self._waiting.append(batch)
        self._rows += len(batch)
        if self._rows >= _GROUP_ROWS:
            self._flush()

    def _flush(self) -> None:
        table = self._kind.table(self._waiting, self._waiting[0].schema)
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._folder / self._name, table.schema)
        self._writer.write_table(table)
        self._waiting, self._rows = [], 0
