"""The engine: takes rows as they come, and ends operations as time moves on.

submit ----> shelf (whole rows)
   |  '----> waiting (id side)  <-- candidates --.
   '-------> progress (key side) ----------------'      signal ---> progress
                                                        cancel ---> waiting
advance(now) moves both sides. Operations that have ended come out of waiting; their other columns
come from the shelf.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from operator import index
from typing import Any

import numpy as np
import pyarrow as pa

from sojourn.errors import BadTable, OutOfRange, WrongType
from sojourn.replay import journal, rows, schemas
from sojourn.replay.arrays import Integers
from sojourn.replay.progress import Progress
from sojourn.replay.shelf import Shelf, shelvable
from sojourn.replay.times import checked_moment_ms
from sojourn.replay.waiting import Waiting

_SNAPSHOT = "Esnp"
_PARTS = pa.schema([("part", pa.large_binary())])
_DAY_MS = 86_400_000
_LONGEST_MS = rows.MOST
_MUCH = 2**30  # bytes of rows that the key side has not been told of


@dataclass(frozen=True, slots=True)
class Step:
    """What one `advance` returns: operations that have ended, and rejected rows."""

    outcomes: pa.Table
    rejected: pa.Table

    def __repr__(self) -> str:
        return f"<Step outcomes={len(self.outcomes)} rejected={len(self.rejected)}>"


class Engine:
    """Takes operations, signals and cancels in batches, in any order, and ends operations.

        engine = Engine()
        engine.submit(operations)          # pyarrow Tables, columns as in `resolve`
        engine.signal(signals)
        engine.cancel(cancels)
        step = engine.advance(now_ms)      # step.outcomes, step.rejected

    `advance(now_ms)` says that all rows up to then are in: whatever ends by then is an outcome, and
    the same one that `resolve` gives over all rows. A row that comes later than that is late, and
    rejected. Columns of operations that are not ours pass through to the outcomes.

    The id of an operation that ended is remembered for `remember_ms` of event time: an operation
    submitted until then under the same id is a duplicate. A key is remembered for ever by its
    largest offset, or, with `forget_keys_after_ms`, until it had neither news nor anyone waiting
    for that long; an operation that comes after that sees no progress on it.

    Not for several threads at once.
    """

    def __init__(
        self, *, remember_ms: int = _DAY_MS, forget_keys_after_ms: int | None = None
    ) -> None:
        remember_ms = _checked_span_ms("remember_ms", remember_ms)
        if forget_keys_after_ms is not None:
            forget_keys_after_ms = _checked_span_ms("forget_keys_after_ms", forget_keys_after_ms)
        self._progress = Progress(forget_keys_after_ms=forget_keys_after_ms)
        self._waiting = Waiting(remember_ms=remember_ms)
        self._shelf = Shelf()
        self._extras = pa.schema([])
        self._rejected: list[pa.Table] = []
        # What the key side has not been told of: it takes all of it at once, by its times.
        self._requirements: list[pa.RecordBatch] = []
        self._signals: list[pa.RecordBatch] = []
        self._untold_bytes = 0

    @property
    def now_ms(self) -> int | None:
        """The time it was last advanced to; None before the first."""
        return self._waiting.now_ms

    @property
    def next_ms(self) -> int | None:
        """Nothing ends before this time unless rows come in; None when nothing waits."""
        self._tell_all()
        return self._waiting.next_ms

    def __len__(self) -> int:
        """How many operations wait."""
        return len(self._waiting)

    def submit(self, operations: Any) -> None:
        """Take operations in. The next `advance` returns the invalid ones as rejected."""
        table = rows.as_table(operations, rows.OPERATIONS)
        clean = rows.check_operations(table)
        table = shelvable(table, rows.OPERATIONS)
        extras = self._with_extras(table.select(clean.extras.column_names).schema)
        clean = self._in_time(table, rows.OPERATIONS, clean, clean.submitted_ms)
        whole = table if len(clean) == len(table) else table.take(pa.array(clean.numbers))
        self._extras = extras
        if len(clean):
            numbers = self._shelf.put(whole)
            self._tell_later(self._requirements, clean.requirements(numbers))
            taken = self._waiting.apply(clean.submissions(numbers), None, None, None)
            self._reject_duplicates(taken[1])

    def signal(self, signals: Any) -> None:
        """Take signals in."""
        batch = self._events(signals, rows.SIGNALS)
        if len(batch):
            self._tell_later(self._signals, batch)

    def cancel(self, cancels: Any) -> None:
        """Take cancels in."""
        batch = self._events(cancels, rows.CANCELS)
        if len(batch):
            self._waiting.apply(None, None, batch, None)

    def advance(self, now_ms: int | datetime) -> Step:
        """Move time to `now_ms`, milliseconds or a datetime; return what has ended by then.

        Outcomes come in the order of time, and with them all rows rejected since the last call.
        """
        now_ms = self._checked_now_ms(now_ms)
        ended, _ = self._waiting.apply(None, self._tell(now_ms), None, now_ms)
        numbers = ended.column("tag").to_numpy()
        outcome_columns = ended.select(schemas.STREAM_OUTCOMES.names)
        outcomes = self._beside(pa.Table.from_batches([outcome_columns]), numbers)
        self._shelf.remove(numbers)
        rejected = pa.concat_tables([rows.REJECTED.empty_table(), *self._rejected])
        self._rejected = []
        return Step(outcomes, rejected)

    def pending(self) -> pa.Table:
        """Return the operations that wait, in the order they came in."""
        numbers = np.sort(self._waiting.pending().column("tag").to_numpy())
        tables = [schemas.OPERATIONS.empty_table()]
        tables += [rows.check_operations(table).table() for _, table in self._shelf.take(numbers)]
        return self._beside(pa.concat_tables(tables).combine_chunks(), numbers)

    def snapshot(self) -> bytes:
        """Return all of the state as bytes, for `restore`."""
        self._tell_all()
        next_number, pieces = self._shelf.pieces()
        parts = [self._progress.snapshot(), self._waiting.snapshot()]
        parts.append(self._extras.serialize().to_pybytes())
        parts.append(_ipc(pa.concat_tables([rows.REJECTED.empty_table(), *self._rejected])))
        for numbers, table in pieces:
            parts += [numbers.tobytes(), _ipc(table)]
        batch = pa.record_batch([pa.array(parts, pa.large_binary())], schema=_PARTS)
        return journal.pack(_SNAPSHOT, [next_number], [batch])

    @classmethod
    def restore(cls, data: Any) -> Engine:
        """Return an engine that goes on as the one that gave the snapshot would."""
        (next_number,), (batch,) = journal.unpack(_SNAPSHOT, data, [_PARTS])
        parts = [part.as_buffer() for part in batch.column("part")]
        self = cls()
        self._progress = Progress.restore(parts[0])
        self._waiting = Waiting.restore(parts[1])
        self._extras = pa.ipc.read_schema(parts[2])
        self._rejected = [pa.ipc.open_stream(parts[3]).read_all()]
        pieces = [
            (np.frombuffer(parts[n], dtype=np.int64), pa.ipc.open_stream(parts[n + 1]).read_all())
            for n in range(4, len(parts), 2)
        ]
        self._shelf = Shelf.of_pieces(next_number, pieces)
        return self

    def __repr__(self) -> str:
        return f"<Engine now_ms={self.now_ms} waiting={len(self)}>"

    def _tell_later(self, untold: list[pa.RecordBatch], batch: pa.RecordBatch) -> None:
        if self._untold_bytes + batch.nbytes > _MUCH:
            self._tell_all()
        untold.append(batch)
        self._untold_bytes += batch.nbytes

    def _tell_all(self) -> None:
        """Tell the key side what came since it was last told."""
        if self._untold_bytes:
            self._waiting.apply(None, self._tell(None), None, None)

    def _tell(self, now_ms: int | None) -> pa.RecordBatch:
        """Tell the key side that, and the time; return what candidates there are now."""
        candidates = self._progress.apply(
            _joined(self._requirements), _joined(self._signals), now_ms
        )
        self._requirements.clear()
        self._signals.clear()
        self._untold_bytes = 0
        return candidates

    def _events(self, events: Any, name: str) -> pa.RecordBatch:
        """Return the signals or cancels that are in time; reject the others."""
        table = rows.as_table(events, name)
        clean = rows.CHECKS[name](table)
        return self._in_time(table, name, clean, clean.at_ms).batch(rows.TABLES[name])

    def _in_time(self, table: pa.Table, name: str, clean: Any, times_ms: Integers) -> Any:
        """Return the clean rows that are not late; reject the others."""
        rejected = [clean.rejected]
        if self.now_ms is not None:
            in_time = times_ms > self.now_ms
            rejected.append(rows.reject(table, name, clean.numbers[~in_time], rows.LATE))
            clean = clean.keep(in_time)
        self._keep_rejected(rejected)
        return clean

    def _reject_duplicates(self, duplicates: pa.RecordBatch) -> None:
        numbers = duplicates.column("tag").to_numpy()
        for _, table in self._shelf.take(numbers):
            everything = np.arange(len(table))
            rejected = rows.reject(table, rows.OPERATIONS, everything, rows.DUPLICATE)
            self._keep_rejected([rejected])
        self._shelf.remove(numbers)

    def _keep_rejected(self, tables: list[pa.Table]) -> None:
        self._rejected += [table for table in tables if len(table)]

    def _with_extras(self, schema: pa.Schema) -> pa.Schema:
        """Return the columns that pass through so far, and these."""
        try:
            return pa.unify_schemas([self._extras, schema.remove_metadata()])
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise BadTable(
                f"{rows.OPERATIONS}: a column of your own has another type than in an earlier "
                f"table; cast it to the same. {error}"
            ) from None

    def _beside(self, own: pa.Table, numbers: Integers) -> pa.Table:
        """Return the columns known with those of the user's beside them."""
        names = self._extras.names
        if not names:
            return own
        pieces = [self._extras.empty_table()]
        places = [np.empty(0, dtype=np.int64)]
        for at, table in self._shelf.take(numbers):
            pieces.append(table.select([name for name in names if name in table.column_names]))
            places.append(at)
        extras = pa.concat_tables(pieces, promote_options="default").select(names)
        order = np.argsort(np.concatenate(places))
        extras = extras.take(pa.array(order)).combine_chunks()
        columns = [*own.columns, *extras.columns]
        return pa.table(columns, schema=pa.schema([*own.schema, *self._extras]))

    def _checked_now_ms(self, value: Any) -> int:
        now_ms = checked_moment_ms(value, "now_ms", "give milliseconds")
        if self.now_ms is not None and now_ms < self.now_ms:
            raise OutOfRange(
                f"now_ms must be ≥ {self.now_ms}, where the engine stands, got {now_ms}; "
                "time does not go back, make a new engine"
            )
        return now_ms


def _checked_span_ms(name: str, value: Any) -> int:
    """Return a span of event time, or say what is wrong with it."""
    try:
        span_ms = index(value)
    except TypeError:
        raise WrongType(
            f"{name} must be an integer number of milliseconds, got {value!r} "
            f"({type(value).__name__})"
        ) from None
    if isinstance(value, bool) or not 0 <= span_ms <= _LONGEST_MS:
        raise OutOfRange(f"{name} must be from 0 to {_LONGEST_MS} ms, got {value!r}")
    return span_ms


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch | None:
    """Return the rows of all batches as one; of wide text if one of them has that."""
    if len(batches) < 2:
        return batches[0] if batches else None
    tables = [pa.Table.from_batches([batch]) for batch in batches]
    (joined,) = pa.concat_tables(tables, promote_options="permissive").combine_chunks().to_batches()
    return joined


def _ipc(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    written: bytes = sink.getvalue().to_pybytes()
    return written
