"""Tables in files, read by Spark's workers with the same code that reads them in process.

    path ── driver: which files, cut into splits ── workers: read_file ── rows, and what is no row

So both engines read files in the same way, report a damaged one alike, and reject the same rows for
the same reasons. Workers must be able to reach the files, as with Spark's own readers; URLs go
through Arrow, with the credentials that it finds on each machine.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from sojourn.errors import BadTable
from sojourn.replay import files, formats, lakes, rows
from sojourn.replay.columns import Columns
from sojourn.replay.names import as_text
from sojourn.replay.stores import File
from sojourn.spark.session import quiet_pyspark
from sojourn.spark.workers import settle

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# What a task reads: of Parquet so many bytes of row groups, of others whole files.
_SPLIT_BYTES = 32 << 20
_BATCH_ROWS = 1 << 16
_MOST_SPLITS = 100_000


class Split(NamedTuple):
    """A file, or some row groups of it."""

    file: File
    groups: tuple[int, int] | None = None


def read_table(
    spark: SparkSession, path: str | os.PathLike[str], name: str, columns: Columns | None = None
) -> DataFrame:
    """Read the table `name` (operations, signals or cancels) from wherever the path leads.

    As `replay` reads it: Parquet, CSV or JSON lines, compressed or not; a file, a folder, a pattern
    or a URL; a Delta or Iceberg table. `columns` says where our columns come from. What is no row
    comes out in `_corrupt_record`, which `resolve` turns into a rejected row.
    """
    return open_table(spark, path, name, columns).frame()


class FileTable(NamedTuple):
    """A table in files: who reads what of it, its columns, and how large the files are."""

    tasks: DataFrame  # a row for each split, its number
    reader: _Reader
    bytes: int

    @property
    def columns(self) -> pa.Schema:
        return self.reader.schema

    def frame(self) -> DataFrame:
        from pyspark.sql.pandas.types import from_arrow_schema

        with quiet_pyspark():
            return self.tasks.mapInArrow(self.reader, from_arrow_schema(self.columns))


def open_table(
    spark: SparkSession, path: str | os.PathLike[str], name: str, columns: Columns | None = None
) -> FileTable:
    """Find the files, and which columns they have together; see `read_table`."""
    columns = columns or Columns(files.checked_name(name))
    table_files = [_absolute(file) for file in lakes.find(path, name)]
    splits = _splits(table_files)
    schema = rows.TABLES[name]
    if name == rows.OPERATIONS:
        schema = _with_extras(spark, splits, columns, str(path))
    schema = schema.append(pa.field(rows.CORRUPT, pa.string()))
    schema = schema.append(pa.field(rows.CORRUPT_REASON, pa.string()))
    with quiet_pyspark():
        tasks = _tasks(spark, splits)
    reader = _Reader(tuple(splits), columns, schema)
    return FileTable(tasks, reader, sum(file.size for file in table_files))


def warn_of_units(path: str | os.PathLike[str], name: str, columns: Columns | None = None) -> None:
    """Look at the first rows, and warn of times that look like another unit's.

    In the workers nobody would see the warning.
    """
    columns = columns or Columns(files.checked_name(name))
    files.read_file(lakes.find(path, name)[0], columns, head=True)


@dataclass(frozen=True)
class _Reader:
    """Reads the splits whose numbers it is given; called by `mapInArrow`."""

    splits: tuple[Split, ...]
    columns: Columns
    schema: pa.Schema

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        settle()
        for split in _given(self.splits, batches):
            read = files.read_file(split.file, self.columns, split.groups)
            yield from self._rows(read.table).to_batches(_BATCH_ROWS)
            if len(read.rejected):
                yield from self._broken(read.rejected).to_batches(_BATCH_ROWS)

    def read_ids(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The ids of valid rows; of Parquet with our columns only the id is read.

        Then ids of invalid rows are among them.
        """
        settle()
        as_it_is = self.columns == Columns(self.columns.table)
        for split in _given(self.splits, batches):
            ids = formats.column(split.file, "id", split.groups) if as_it_is else None
            if ids is None:
                ids = files.read_file(split.file, self.columns, split.groups).table["id"]
            yield pa.record_batch([as_text(ids, "id")], names=["id"])

    def _rows(self, table: pa.Table) -> pa.Table:
        arrays = [
            _cast(table.column(field.name), field.type)
            if field.name in table.column_names
            else pa.nulls(len(table), field.type)
            for field in self.schema
        ]
        return pa.table(arrays, schema=self.schema)

    def _broken(self, rejected: pa.Table) -> pa.Table:
        own = {rows.CORRUPT: rejected["row"], rows.CORRUPT_REASON: rejected["reason"]}
        many = len(rejected)
        arrays = [own.get(field.name, pa.nulls(many, field.type)) for field in self.schema]
        return pa.table(arrays, schema=self.schema)


def _schemas(
    splits: list[Split], columns: Columns, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield the columns of the splits whose numbers are given."""
    for split in _given(splits, batches):
        schema = files.read_file(split.file, columns).table.schema
        yield pa.record_batch({"columns": [schema.serialize().to_pybytes()]})


def _given(splits: Sequence[Split], batches: Iterable[pa.RecordBatch]) -> Iterator[Split]:
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield splits[number]


def _tasks(spark: SparkSession, splits: list[Split]) -> DataFrame:
    """A row for each split; small ones that follow each other share a task, if there are enough."""
    total = sum(split.file.size for split in splits)
    context: Any = getattr(spark, "_sc", None)  # Spark Connect does not tell
    cores = context.defaultParallelism if context else 1
    tasks = max(1, min(len(splits), max(cores, -(-total // _SPLIT_BYTES)), _MOST_SPLITS))
    return spark.range(0, len(splits), 1, tasks)


def _splits(files: list[File]) -> list[Split]:
    with ThreadPoolExecutor(8) as pool:
        return [split for some in pool.map(_splits_of, files) for split in some]


def _splits_of(file: File) -> list[Split]:
    if file.size <= _SPLIT_BYTES or not formats.is_parquet(file):
        return [Split(file)]
    splits, first, size = [], 0, 0
    sizes = formats.row_groups(file)
    for n, of_group in enumerate(sizes):
        size += of_group
        if size >= _SPLIT_BYTES or n == len(sizes) - 1:
            splits.append(Split(file._replace(size=size), (first, n + 1)))
            first, size = n + 1, 0
    return splits


def _absolute(file: File) -> File:
    """Workers may stand in another folder."""
    return file if file.url else file._replace(path=os.path.abspath(file.path))


def _with_extras(
    spark: SparkSession, splits: list[Split], columns: Columns, path: str
) -> pa.Schema:
    """Return the columns of operations with those that pass through, as all files have them."""
    once = list({split.file.path: Split(split.file) for split in splits}.values())
    heads = [split for split in once if formats.is_parquet(split.file)]
    schema_of_path = {split.file.path: _schema_of(split, columns) for split in heads}
    texts = [split for split in once if split.file.path not in schema_of_path]
    if texts:  # of text only all of it tells the columns
        with quiet_pyspark():
            serialized = _tasks(spark, texts).mapInArrow(
                lambda batches: _schemas(texts, columns, batches), "columns binary"
            )
            for split, row in zip(texts, serialized.collect(), strict=True):
                schema_of_path[split.file.path] = pa.ipc.read_schema(pa.py_buffer(bytes(row[0])))
    schemas = [schema_of_path[split.file.path].remove_metadata() for split in once]
    try:
        whole = pa.unify_schemas(schemas, promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise BadTable(
            f"{columns.table}: the files of {path} do not make one table; {error}"
        ) from None
    ours = rows.TABLES[rows.OPERATIONS]
    extras = [f.with_type(_sparks(f.type)) for f in whole if f.name not in ours.names]
    return pa.schema([*ours, *extras])


def _schema_of(split: Split, columns: Columns) -> pa.Schema:
    return files.read_file(split.file, columns, head=True).table.schema


def _cast(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    if column.type == kind:
        return column
    if isinstance(column.type, pa.BaseExtensionType):
        chunks = [chunk.storage for chunk in column.chunks]
        column = pa.chunked_array(chunks, column.type.storage_type)
    try:
        return column.cast(kind, safe=False)
    except pa.ArrowNotImplementedError:  # text of what Spark has no type for
        values = [None if v is None else str(v) for v in column.to_pylist()]
        return pa.chunked_array([pa.array(values, kind)])


def _sparks(kind: pa.DataType) -> pa.DataType:
    """Return the nearest of Spark's types, as Arrow has it."""
    plain = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return _sparks(kind.storage_type)
    if plain.is_dictionary(kind):
        return _sparks(kind.value_type)
    if plain.is_large_string(kind) or plain.is_string_view(kind) or plain.is_null(kind):
        return pa.string()
    if (
        plain.is_large_binary(kind)
        or plain.is_binary_view(kind)
        or plain.is_fixed_size_binary(kind)
    ):
        return pa.binary()
    if plain.is_timestamp(kind):
        return pa.timestamp("us", "UTC" if kind.tz else None)
    if plain.is_duration(kind):
        return pa.duration("us")
    if plain.is_date64(kind):
        return pa.date32()
    if plain.is_decimal256(kind):
        return pa.decimal128(38, kind.scale) if kind.precision <= 38 else pa.string()
    if kind in _WIDER:
        return _WIDER[kind]
    if plain.is_time(kind) or plain.is_interval(kind):
        return pa.string()
    if plain.is_map(kind):
        return pa.map_(_sparks(kind.key_type), _sparks(kind.item_type))
    if plain.is_struct(kind):
        return pa.struct([f.with_type(_sparks(f.type)) for f in kind])
    if hasattr(kind, "value_type"):  # lists of all kinds
        return pa.list_(_sparks(kind.value_type))
    return kind


_WIDER: dict[Any, Any] = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
}
