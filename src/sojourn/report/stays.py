"""What a replay or a stream has written, read again as often as anybody asks, a batch at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from sojourn.errors import OutOfRange, SojournError
from sojourn.report.bins import Values

Int64s = npt.NDArray[np.int64]

STATUSES = ("completed", "expired", "cancelled")
COMPLETED, EXPIRED, CANCELLED = range(3)

NO_CLASS = "(none)"
_TYPES = {
    **{name: pa.int64() for name in ("at_ms", "waited_ms", "condition_ms")},
    **{name: pa.int64() for name in ("submitted_ms", "timeout_ms")},
    **{name: pa.string() for name in ("id", "status", "by_key", "table", "reason", "row")},
}
_ALWAYS = ("by_key",)  # null in every row of some files

_MOST_CLASSES = 1_000
_BATCH_ROWS = 131_072


class BadOutcomes(SojournError, ValueError):
    """What was given is not what a replay or a stream writes."""


@dataclass(frozen=True)
class Source:
    """A table: the names of its columns, and a way to read some of them, from the beginning."""

    names: list[str]
    read: Callable[[list[str]], Iterator[Any]]


class Stays:
    """Ended operations, as outcomes; pending ones and rejected rows beside them if they are known.

    `until_ms` is the time up to which the data is complete, where that is known.
    """

    def __init__(
        self,
        outcomes: Source,
        *,
        pending: Source | None = None,
        rejected: Source | None = None,
        class_column: str | None = None,
        until_ms: int | None = None,
        origin: str = "",
    ) -> None:
        self.names = outcomes.names
        self.origin = origin
        self.until_ms = until_ms
        self.has_condition = "condition_ms" in self.names
        self.has_timeout = "timeout_ms" in self.names
        self.class_column: str | None = None
        self.classes: list[str] = []  # in order of appearance; complete after one pass
        self._codes: dict[Any, int] = {}
        self._outcomes = outcomes
        self._pending = pending
        self._rejected = rejected
        for name in ("status", "at_ms", "waited_ms", "by_key"):
            if name not in self.names:
                raise BadOutcomes(
                    f"outcomes must have a column {name}, found {', '.join(self.names) or 'none'};"
                    " name the folder that `sojourn replay` or `sojourn stream` wrote"
                )
        if class_column is not None:
            self.tell_classes_by(class_column)

    def tell_classes_by(self, name: str) -> None:
        """Take this column for the class of an operation; before anything is counted."""
        if name not in self.names:
            raise OutOfRange(
                f"there is no column {name!r} to tell classes by; "
                f"the outcomes have {', '.join(self.names)}"
            )
        self.class_column = name

    @classmethod
    def of_tables(
        cls,
        outcomes: Any,
        pending: Any = None,
        rejected: Any = None,
        *,
        class_column: str | None = None,
        until_ms: int | None = None,
    ) -> Stays:
        """Take tables from memory: all three that `replay.resolve` gives, if there are any."""

        def source(table: Any) -> Source:
            return Source(
                table.column_names,
                lambda columns: iter(table.select(columns).to_batches(max_chunksize=_BATCH_ROWS)),
            )

        return cls(
            source(outcomes),
            pending=None if pending is None else source(pending),
            rejected=None if rejected is None else source(rejected),
            class_column=class_column,
            until_ms=until_ms,
        )

    @classmethod
    def of_folder(
        cls, folder: str | Path, *, class_column: str | None = None, until_ms: int | None = None
    ) -> Stays:
        """Take a folder that holds outcomes/ and perhaps pending/ and rejected/."""
        folder = Path(folder)
        if not folder.is_dir():
            raise FileNotFoundError(
                f"there is no folder {folder}; name one that `sojourn replay --out` wrote"
            )
        inner = folder / "outcomes"
        outcomes = _dataset(inner if inner.exists() else folder)

        def beside(name: str) -> Source | None:
            if not inner.exists() or not (folder / name).is_dir():
                return None
            if not _files(folder / name):  # a stream that has had nothing to say
                return Source([], lambda columns: iter(()))
            return _source(_dataset(folder / name))

        return cls(
            _source(outcomes),
            pending=beside("pending"),
            rejected=beside("rejected"),
            class_column=class_column,
            until_ms=until_ms,
            origin=str(folder),
        )

    def batches(self, columns: set[str]) -> Iterator[Stay]:
        """The outcomes, with what these columns say."""
        for batch in self._outcomes.read(sorted(columns)):
            if batch.num_rows:
                yield Stay(self, batch)

    @property
    def class_columns(self) -> set[str]:
        """The columns that it takes to tell classes: one or none."""
        return set() if self.class_column is None else {self.class_column}

    @property
    def knows_pending(self) -> bool:
        return self._pending is not None

    def pending_batches(self) -> Iterator[Pending]:
        """The operations that still wait."""
        if self._pending is None:
            return
        wanted = {"submitted_ms", "timeout_ms"} | (self.class_columns & {*self._pending.names})
        for batch in self._pending.read(sorted(wanted)):
            if batch.num_rows:
                yield Pending(self, batch)

    @property
    def knows_rejected(self) -> bool:
        return self._rejected is not None

    def rejected_reasons(self) -> dict[tuple[str, str], int]:
        """How many rows of which table were rejected for which reason."""
        counts: dict[tuple[str, str], int] = {}
        for batch in self._rejected.read(["table", "reason"]) if self._rejected else ():
            grouped = pa.Table.from_batches([batch]).group_by(["table", "reason"])
            for row in grouped.aggregate([([], "count_all")]).to_pylist():
                kind = (row["table"] or "", row["reason"] or "")
                counts[kind] = counts.get(kind, 0) + row["count_all"]
        return counts

    def code(self, value: Any) -> int:
        """The number of a class."""
        if value not in self._codes:
            if len(self._codes) == _MOST_CLASSES:
                raise OutOfRange(
                    f"column {self.class_column!r} has more than {_MOST_CLASSES} different values;"
                    " choose one that says what kind of operation it is"
                )
            self._codes[value] = len(self.classes)
            self.classes.append(NO_CLASS if value is None else str(value))
        return self._codes[value]


class _Batch:
    """Some operations, each column as an array when it is first asked for."""

    def __init__(self, stays: Stays, batch: Any) -> None:
        self._stays = stays
        self._batch = batch

    def __len__(self) -> int:
        return int(self._batch.num_rows)

    @cached_property
    def timeout_known(self) -> npt.NDArray[np.bool_]:
        """Whether there is a timeout: a stream or a history may be older than the column."""
        return self._valid("timeout_ms")

    @cached_property
    def timeout_ms(self) -> Int64s:
        """Meaningless where it is not known."""
        return _integers(self._batch, "timeout_ms", nulls=True)

    @cached_property
    def class_code(self) -> npt.NDArray[np.int32]:
        """The number of each operation's class; all 0 where there are no classes."""
        stays = self._stays
        if stays.class_column is None:
            return np.zeros(len(self), np.int32)
        if stays.class_column not in self._batch.schema.names:
            return np.full(len(self), stays.code(None), np.int32)
        column = self._batch.column(stays.class_column)
        if pa.types.is_null(column.type):
            column = column.cast(pa.string())
        if not pa.types.is_dictionary(column.type):
            column = column.dictionary_encode("encode")
        local = [stays.code(value) for value in column.dictionary.to_pylist()]
        if column.null_count:
            local.append(stays.code(None))
        codes = pc.fill_null(column.indices.cast(pa.int32()), len(local) - 1)
        numbers: npt.NDArray[np.int32] = np.asarray(local, np.int32)
        return np.asarray(numbers.take(codes.to_numpy(zero_copy_only=False)), np.int32)

    def _valid(self, name: str) -> npt.NDArray[np.bool_]:
        return np.asarray(self._batch.column(name).is_valid().to_numpy(zero_copy_only=False))


class Pending(_Batch):
    """Operations that still waited when the data ended."""

    @cached_property
    def submitted_ms(self) -> Int64s:
        return _integers(self._batch, "submitted_ms")


class Stay(_Batch):
    """Operations that ended."""

    @cached_property
    def at_ms(self) -> Int64s:
        return _integers(self._batch, "at_ms")

    @cached_property
    def waited_ms(self) -> Values:
        return _integers(self._batch, "waited_ms").view(np.uint64)

    @cached_property
    def submitted_ms(self) -> Int64s:
        return self.at_ms - self.waited_ms.view(np.int64)

    @cached_property
    def status(self) -> npt.NDArray[np.int8]:
        """0, 1, 2 for completed, expired, cancelled."""
        names = self._batch.column("status").cast(pa.string())
        codes = pc.index_in(names, value_set=pa.array(STATUSES))
        if codes.null_count:
            strange = names.filter(codes.is_null())[0].as_py()
            raise BadOutcomes(f"status must be one of {', '.join(STATUSES)}, found {strange!r}")
        return np.asarray(codes.to_numpy().astype(np.int8))

    @cached_property
    def held(self) -> npt.NDArray[np.bool_]:
        """Whether the condition held at some time."""
        return self._valid("condition_ms")

    @cached_property
    def condition_ms(self) -> Int64s:
        """When it held; meaningless where it never did."""
        return _integers(self._batch, "condition_ms", nulls=True)

    @cached_property
    def condition_waits_ms(self) -> Values:
        """How long the condition took; meaningless where it never held.

        As long as 64 bits without a sign: from the first of all times to the last.
        """
        return self.condition_ms.view(np.uint64) - self.submitted_ms.view(np.uint64)

    @cached_property
    def by_key(self) -> Any:
        """The key that completed each, as Arrow strings; null where none did."""
        return self._batch.column("by_key").cast(pa.string())


def _integers(batch: Any, name: str, *, nulls: bool = False) -> Int64s:
    column = batch.column(name)
    if not pa.types.is_integer(column.type):
        raise BadOutcomes(f"column {name} must hold integers, found {column.type}")
    column = column.cast(pa.int64())
    if column.null_count:
        if not nulls:
            raise BadOutcomes(f"column {name} must not have nulls, found {column.null_count}")
        column = column.fill_null(0)
    return np.asarray(column.to_numpy())


def _files(folder: Path) -> list[Path]:
    """The files below a folder; those whose name begins with _ or . are not data."""
    return sorted(
        path
        for path in folder.rglob("*")
        if path.is_file()
        and not any(part.startswith(("_", ".")) for part in path.relative_to(folder).parts)
    )


def _dataset(folder: Path) -> Any:
    """The rows of the Parquet or JSON-lines files below a folder."""
    files = _files(folder)
    if not files:
        raise BadOutcomes(f"there are no files in {folder}; has the job ended?")
    endings = {path.suffix for path in files}
    if endings == {".parquet"}:
        form = "parquet"
    elif endings <= {".json", ".jsonl", ".ndjson"}:
        form = "json"
    else:
        raise BadOutcomes(
            f"{folder} must hold .parquet files or .json ones, found {', '.join(sorted(endings))}"
        )
    try:
        if form == "json":
            return _json_dataset(files)
        # A stream that has run for long may have begun with fewer columns than it has now.
        oldest, newest = (pick(files, key=lambda path: path.stat().st_mtime) for pick in (min, max))
        schemas = [ds.dataset([str(path)], format=form).schema for path in {oldest, newest}]
        schema = pa.unify_schemas(schemas)
        return ds.dataset([str(path) for path in files], schema=schema, format=form)
    except (pa.ArrowInvalid, OSError) as error:
        raise BadOutcomes(f"cannot read {folder}: {error}") from error


def _json_dataset(files: list[Path]) -> Any:
    """Lines of JSON leave out what is null, and whole files can be empty: gather the columns."""
    filled = [str(path) for path in files if path.stat().st_size]
    if not filled:  # a stream that has had nothing to say so far
        return ds.dataset(pa.schema(list(_TYPES.items())).empty_table())
    seen = pa.unify_schemas([ds.dataset([path], format="json").schema for path in filled[:64]])
    kinds = {field.name: field.type for field in seen} | _TYPES
    names = [*seen.names, *(name for name in _ALWAYS if name not in seen.names)]
    schema = pa.schema([(name, kinds[name]) for name in names])
    return ds.dataset(filled, schema=schema, format="json")


def _source(dataset: Any) -> Source:
    def read(columns: list[str]) -> Iterator[Any]:
        missing = [name for name in columns if name not in dataset.schema.names]
        if missing:
            raise BadOutcomes(
                f"{Path(dataset.files[0]).parent} must have a column {missing[0]}, "
                f"found {', '.join(dataset.schema.names)}"
            )
        # Few batches ahead: a column of a hundred million rows must not pile up in memory.
        batches = dataset.scanner(
            columns=columns, batch_size=_BATCH_ROWS, batch_readahead=4, fragment_readahead=1
        ).to_batches()
        try:
            yield from batches
        except (pa.ArrowInvalid, OSError) as error:
            raise BadOutcomes(f"cannot read {dataset.files[0]}: {error}") from error

    return Source(dataset.schema.names, read)
