"""Columns: which columns of a user's table become those of operations, signals or cancels.

    orders:  order_id  created_at           state     operations:  id  submitted_ms  requires …
             17        2026-01-05 12:00:00  new   →                17  2026-01-05 …  [paid/17 ≥ 1]

    as_operations(orders, id="order_id", submitted_ms="created_at", timeout="30min",
                  requires=["paid/{order_id}"])

A `Columns` is the same for every engine; `apply` carries it out on Arrow tables, `sojourn.spark` on
DataFrames.
"""

from __future__ import annotations

import string
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sojourn.core.time_texts import duration_ms
from sojourn.errors import BadTable, OutOfRange, WrongType
from sojourn.replay import rows, times
from sojourn.replay.names import as_text

# What a column holds.
TEXT, TIME, DURATION, INTEGER, REQUIRES = "text", "time", "duration", "integer", "requires"

Where = Mapping[str, str | int | Sequence[str | int] | None]


class Column(NamedTuple):
    """A column of the table, as it is."""

    name: str


class Template(NamedTuple):
    """Text with columns in it: each piece is text, or the name of a column."""

    pieces: tuple[tuple[bool, str], ...]  # whether it is a column; which, or the text

    @property
    def names(self) -> list[str]:
        return [text for is_column, text in self.pieces if is_column]


class Constant(NamedTuple):
    """The same whole number in every row."""

    value: int


class Requires(NamedTuple):
    """A list of requirements: keys and offsets."""

    items: tuple[tuple[Template, int], ...]


Source = Column | Template | Constant | Requires


class Plan(NamedTuple):
    """What to make of a table with these columns."""

    where: tuple[tuple[str, tuple[str, ...] | None], ...]  # None: is not null
    made: dict[str, Source]  # our columns
    kept: list[str]  # those that pass through as they are


@dataclass(frozen=True)
class Columns:
    """Where the columns of one of our tables come from; see `as_operations` and its siblings."""

    table: str
    sources: tuple[tuple[str, str | int], ...] = ()
    requires: tuple[tuple[str, int], ...] = ()
    timeout_ms: int | None = None
    where: tuple[tuple[str, tuple[str, ...] | None], ...] = ()
    keep: tuple[str, ...] | None = None

    def plan(self, names: Sequence[str]) -> Plan:
        """Say what to make of a table with these columns, or which one it lacks."""
        made: dict[str, Source] = {}
        for target, source in self.sources:
            made[target] = self._source(target, source, names)
        if self.timeout_ms is not None:
            made["timeout_ms"] = Constant(self.timeout_ms)
        if self.requires:
            made["requires"] = Requires(
                tuple((self._template("requires", key, names), n) for key, n in self.requires)
            )
        if self.table == rows.SIGNALS and made and "offset" not in (*made, *names):
            made["offset"] = Constant(1)  # it happened
        for column, _ in self.where:
            self._check(column, names, "where")
        for column in self.keep or ():
            self._check(column, names, "keep")
        return Plan(self.where, made, self._kept(made, names))

    def kinds(self) -> dict[str, str]:
        """Say what the columns hold that our columns come from."""
        kinds = dict(KINDS[self.table])
        for target, source in self.sources:
            if isinstance(source, str) and "{" not in source:
                kinds.pop(target, None)
                kinds[source] = KINDS[self.table].get(target, "")
        return {column: kind for column, kind in kinds.items() if kind}

    def reads(self) -> list[str]:
        """Say which columns of a table are read; where nothing is said, ours by name."""
        columns: list[str] = []
        for target, source in self.sources:
            if isinstance(source, str):
                columns += self._template(target, source, []).names if "{" in source else [source]
        for key, _ in self.requires:
            columns += self._template("requires", key, []).names
        columns += [column for column, _ in self.where]
        targets = {target for target, _ in self.sources}
        targets |= {"timeout_ms"} if self.timeout_ms is not None else set()
        targets |= {"requires"} if self.requires else set()
        stems = {target.rpartition("_")[0] for target in targets if "_" in target}
        stems |= {"timeout"} if "deadline" in stems else set()
        for column in rows.TABLES[self.table].names:
            stem = column.rpartition("_")[0]
            if column not in targets and not (stem and stem in stems):
                columns.append(column)
        return list(dict.fromkeys(columns))

    def apply(self, table: Any) -> pa.Table:
        """Return the Arrow table with our columns, and of operations those that pass through."""
        table = rows.as_table(table, self.table)
        plan = self.plan(table.column_names)
        for name, values in plan.where:
            column = table.column(name)
            if values is None:
                keep = pc.is_valid(column)
            else:
                keep = pc.is_in(self._comparable(column, name), pa.array(values, pa.string()))
            table = table.filter(keep)
        made = {target: self._made(source, table, target) for target, source in plan.made.items()}
        made |= {name: table.column(name) for name in plan.kept}
        return pa.table(list(made.values()), names=list(made))

    def _source(self, target: str, source: str | int, names: Sequence[str]) -> Source:
        if isinstance(source, int):
            return Constant(source)
        if source in names or "{" not in source:
            self._check(source, names, target)
            return Column(source)
        return self._template(target, source, names)

    def _template(self, target: str, text: str, names: Sequence[str]) -> Template:
        pieces: list[tuple[bool, str]] = []
        try:
            for before, name, form, conversion in string.Formatter().parse(text):
                pieces += [(False, before)] if before else []
                if name is not None:
                    if form or conversion or not name:
                        raise ValueError("write {column} and nothing else in the braces")
                    if names:
                        self._check(name, names, f"{target}={text}")
                    pieces.append((True, name))
        except ValueError as error:
            if isinstance(error, BadTable):
                raise
            raise OutOfRange(f"{self.table}: {text!r} is no template: {error}") from None
        return Template(tuple(pieces))

    def _check(self, column: str, names: Sequence[str], asked_by: str) -> None:
        if column not in names:
            there = ", ".join(repr(name) for name in names) or "no columns at all"
            raise BadTable(
                f"{self.table}: there is no column {column!r} for {asked_by}, only {there}"
            )

    def _kept(self, made: dict[str, Source], names: Sequence[str]) -> list[str]:
        """What stays: columns that were not renamed, or replaced by one of ours."""
        renamed = {source.name for source in made.values() if isinstance(source, Column)}
        replaced = renamed | set(made)
        for target in made:
            stem, _, unit = target.rpartition("_")
            if unit in times.UNITS:  # a time may be there once
                stems = ("timeout", "deadline") if stem == "deadline" else (stem,)
                replaced |= {f"{one}_{other}" for one in stems for other in times.UNITS}
        left = [name for name in names if name not in replaced]
        if self.table != rows.OPERATIONS:
            used = {n for s in made.values() if isinstance(s, Template) for n in s.names}
            ours = rows.our_columns(self.table, left)
            return [name for name in left if name in ours or name in used]
        if self.keep is None:
            return left
        ours = rows.our_columns(self.table, [*made, *left])
        return [name for name in left if name in ours or name in self.keep]

    def _made(self, source: Source, table: pa.Table, target: str) -> Any:
        if isinstance(source, Column):
            return table.column(source.name)
        if isinstance(source, Constant):
            return pa.repeat(pa.scalar(source.value, pa.int64()), len(table))
        if isinstance(source, Template):
            return self._text(source, table)
        many = len(source.items)
        keys = pa.concat_arrays([self._text(key, table) for key, _ in source.items])
        # The first requirement of all rows, then the second of all: put each row's together.
        order = np.arange(many * len(table)).reshape(many, len(table)).T.reshape(-1)
        offsets = np.tile(np.array([n for _, n in source.items], dtype=np.int64), len(table))
        items = pa.StructArray.from_arrays(
            [keys.take(pa.array(order)), pa.array(offsets)], names=["key", "offset"]
        )
        starts = np.arange(0, many * len(table) + 1, many, dtype=np.int32)
        return pa.ListArray.from_arrays(pa.array(starts), items)

    def _text(self, template: Template, table: pa.Table) -> pa.Array:
        pieces = [
            as_text(table.column(text), f"{self.table}: the column {text!r}").cast(pa.string())
            if is_column
            else pa.repeat(pa.scalar(text), len(table))
            for is_column, text in template.pieces
        ]
        return pc.binary_join_element_wise(*pieces, "")

    def _comparable(self, column: pa.ChunkedArray, name: str) -> Any:
        if pa.types.is_boolean(column.type):
            return column.cast(pa.string())
        return as_text(column, f"{self.table}: the column {name!r}").cast(pa.string())


def operation_columns(
    *,
    requires: str | Iterable[str | tuple[str, int]] = (),
    timeout: str | int | timedelta | None = None,
    where: Where | None = None,
    keep: Iterable[str] | None = None,
    **columns: str | int,
) -> Columns:
    """Return what `as_operations` asks for."""
    items = [requires] if isinstance(requires, str) else list(requires)
    return Columns(
        rows.OPERATIONS,
        _sources(rows.OPERATIONS, columns),
        tuple((item, 1) if isinstance(item, str) else (item[0], item[1]) for item in items),
        None if timeout is None else _timeout_ms(timeout),
        _where(where),
        None if keep is None else tuple(keep),
    )


def signal_columns(*, where: Where | None = None, **columns: str | int) -> Columns:
    """Return what `as_signals` asks for."""
    return Columns(rows.SIGNALS, _sources(rows.SIGNALS, columns), where=_where(where))


def cancel_columns(*, where: Where | None = None, **columns: str | int) -> Columns:
    """Return what `as_cancels` asks for."""
    return Columns(rows.CANCELS, _sources(rows.CANCELS, columns), where=_where(where))


def as_operations(table: Any, **how: Any) -> pa.Table:
    """Make operations of a table as it is.

        as_operations(orders, id="order_id", submitted_ms="created_at", timeout="30min",
                      requires=["paid/{order_id}", "packed/{order_id}"], needed=1)

    `name="column"` says where a column of ours comes from; `name="text/{column}"` makes it. Times
    are timestamps, or numbers in the unit of the name: `submitted_s="created"` has seconds. The
    timeout is one for all, `timeout`, or a column, `timeout_ms="limit"`; or `deadline_ms="due_at"`
    is given instead. `requires` are keys, or pairs of key and offset; the offset is 1 if not given.
    `where={"state": "open", "due_at": None}` takes the rows with this value, or any of several, and
    those where a column is not null. All other columns pass through, or those that `keep` names;
    `order_status="status"` gives one another name.
    """
    return operation_columns(**how).apply(table)


def as_signals(table: Any, **how: Any) -> pa.Table:
    """Make signals of a table as it is; the offset is 1 if there is none.

    as_signals(events, key="{type}/{order_id}", at_ms="happened_at", where={"type": "paid"})
    """
    return signal_columns(**how).apply(table)


def as_cancels(table: Any, **how: Any) -> pa.Table:
    """Make cancels of a table as it is.

    as_cancels(events, id="order_id", at_ms="happened_at", where={"type": "cancelled"})
    """
    return cancel_columns(**how).apply(table)


def _sources(table: str, columns: Mapping[str, Any]) -> tuple[tuple[str, str | int], ...]:
    for target, source in columns.items():
        if isinstance(source, bool) or not isinstance(source, (str, int)):
            raise WrongType(
                f"{table}: {target} must be the name of a column, a template like 'paid/{{id}}' or "
                f"a whole number, got {source!r}"
            )
        if table != rows.OPERATIONS and target not in KINDS[table]:
            raise OutOfRange(f"{table} have no {target!r}; they take {', '.join(KINDS[table])}")
    return tuple(columns.items())


def _where(where: Where | None) -> tuple[tuple[str, tuple[str, ...] | None], ...]:
    conditions: list[tuple[str, tuple[str, ...] | None]] = []
    for column, wanted in (where or {}).items():
        if wanted is None:
            conditions.append((column, None))
        elif isinstance(wanted, (str, int)):
            conditions.append((column, (_comparable(wanted),)))
        else:
            conditions.append((column, tuple(_comparable(value) for value in wanted)))
    return tuple(conditions)


def _comparable(value: str | int) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _timeout_ms(timeout: str | int | timedelta) -> int:
    if isinstance(timeout, timedelta):
        return timeout // timedelta(milliseconds=1)
    if isinstance(timeout, int) and not isinstance(timeout, bool):
        return timeout
    timeout_ms = duration_ms(timeout) if isinstance(timeout, str) else None
    if timeout_ms is None:
        raise OutOfRange(
            f"timeout must be a duration like '30min', a timedelta or milliseconds, got {timeout!r}"
            "; for a column write timeout_ms='its name'"
        )
    return timeout_ms


def _with_units(stem: str) -> tuple[str, ...]:
    return tuple(f"{stem}_{unit}" for unit in times.UNITS)


_AT = dict.fromkeys(_with_units("at"), TIME)
KINDS = {
    rows.OPERATIONS: {
        "id": TEXT,
        **dict.fromkeys(_with_units("submitted"), TIME),
        **dict.fromkeys(_with_units("timeout"), DURATION),
        **dict.fromkeys(_with_units("deadline"), TIME),
        "requires": REQUIRES,
        "needed": INTEGER,
    },
    rows.SIGNALS: {"key": TEXT, "offset": INTEGER, **_AT},
    rows.CANCELS: {"id": TEXT, **_AT},
}
