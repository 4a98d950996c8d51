"""Stays: ended operations, pending ones and rejected rows, as arrays, a batch at a time."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sojourn.errors import OutOfRange
from sojourn.replay.endings import CANCELLED, COMPLETED, EXPIRED, STATUS
from sojourn.report.bins import Values
from sojourn.report.sources import (
    BadOutcomes,
    Source,
    data_files,
    source_of_folder,
    source_of_table,
)

Int64s = npt.NDArray[np.int64]

# Outcomes have ended; what is counted for each way to end stands in this order.
ENDINGS = (COMPLETED, EXPIRED, CANCELLED)
STATUSES = tuple(STATUS[ending] for ending in ENDINGS)

NO_CLASS = "(none)"
_MOST_CLASSES = 1_000


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

        return cls(
            source_of_table(outcomes),
            pending=None if pending is None else source_of_table(pending),
            rejected=None if rejected is None else source_of_table(rejected),
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
        outcomes = source_of_folder(inner if inner.exists() else folder)

        def beside(name: str) -> Source | None:
            if not inner.exists() or not (folder / name).is_dir():
                return None
            if not data_files(folder / name):  # a stream that has had nothing to say
                return Source([], lambda columns: iter(()))
            return source_of_folder(folder / name)

        return cls(
            outcomes,
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
        columns = {"submitted_ms", "timeout_ms"} | (self.class_columns & {*self._pending.names})
        for batch in self._pending.read(sorted(columns)):
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
        """COMPLETED, EXPIRED or CANCELLED."""
        names = self._batch.column("status").cast(pa.string())
        codes = pc.index_in(names, value_set=pa.array(STATUSES))
        if codes.null_count:
            unknown = names.filter(codes.is_null())[0].as_py()
            raise BadOutcomes(f"status must be one of {', '.join(STATUSES)}, found {unknown!r}")
        return np.asarray(np.array(ENDINGS, np.int8)[codes.to_numpy()])

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
