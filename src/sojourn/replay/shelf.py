"""The shelf: keeps the user's whole rows, by number, while their operations wait."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from sojourn.errors import BadTable
from sojourn.replay.arrays import Integers


class Shelf:
    """Rows by number, in pieces: tables of one schema each, with rising numbers.

    Pieces of about the same size and the same schema are joined, so there are few however the
    rows came. Rows that were removed are swept out once they are more than those kept.
    """

    def __init__(self) -> None:
        self._pieces: list[tuple[Integers, pa.Table]] = []
        self._next = 0
        self._gone: list[Integers] = []
        self._gone_count = 0
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def put(self, table: pa.Table) -> Integers:
        """Keep the rows; return their numbers, which rise."""
        numbers = np.arange(self._next, self._next + len(table), dtype=np.int64)
        self._next += len(table)
        if len(table):
            self._count += len(table)
            self._add(numbers, table)
        return numbers

    def take(self, numbers: Integers) -> Iterator[tuple[Integers, pa.Table]]:
        """Yield the rows of these numbers in tables of one schema each.

        With each table comes, for every row, its place among the numbers asked for.
        """
        firsts = np.array([piece[0] for piece, _ in self._pieces], dtype=np.int64)
        piece_of = np.searchsorted(firsts, numbers, side="right") - 1
        for n in np.flatnonzero(np.bincount(piece_of)).tolist():
            places = np.flatnonzero(piece_of == n)
            kept, table = self._pieces[n]
            yield places, table.take(pa.array(np.searchsorted(kept, numbers[places])))

    def remove(self, numbers: Integers) -> None:
        """Remove the rows of these numbers."""
        if not len(numbers):
            return
        self._gone.append(numbers)
        self._gone_count += len(numbers)
        self._count -= len(numbers)
        if self._gone_count > self._count:
            self._sweep()

    def pieces(self) -> tuple[int, list[tuple[Integers, pa.Table]]]:
        """Return all there is, for `of_pieces`: the next number, and rows with their numbers."""
        self._sweep()
        return self._next, list(self._pieces)

    @classmethod
    def of_pieces(cls, next_number: int, pieces: list[tuple[Integers, pa.Table]]) -> Shelf:
        """Return a shelf with these rows on it."""
        self = cls()
        self._next = next_number
        self._pieces = pieces
        self._count = sum(len(numbers) for numbers, _ in pieces)
        return self

    def _sweep(self) -> None:
        gone: Any = np.concatenate(self._gone) if self._gone else np.empty(0, dtype=np.int64)
        pieces, self._pieces = self._pieces, []
        self._gone = []
        self._gone_count = 0
        for numbers, table in pieces:
            kept = np.isin(numbers, gone, invert=True)
            if kept.any():
                self._add(numbers[kept], table.filter(pa.array(kept)))

    def _add(self, numbers: Integers, table: pa.Table) -> None:
        while self._pieces:
            before, last = self._pieces[-1]
            if len(before) > 2 * len(numbers) or not last.schema.equals(table.schema):
                break
            self._pieces.pop()
            numbers = np.concatenate([before, numbers])
            table = pa.concat_tables([last, table]).combine_chunks()
        self._pieces.append((numbers, table))


def shelvable(table: pa.Table, name: str) -> pa.Table:
    """Return the table in types of which Arrow can take single rows, or say of which it cannot.

    It cannot take views of text and bytes, which become text and bytes.
    """
    for n, field in enumerate(table.schema):
        column = table.column(n)
        kind = _plain(field.type)
        try:
            if kind != field.type:
                column = column.cast(kind)
                table = table.set_column(n, field.name, column)
            column.slice(0, 0).take(pa.array([], pa.int64()))
        except pa.ArrowNotImplementedError:
            raise BadTable(
                f"{name}: rows of the column {field.name!r} cannot be kept, it is of type "
                f"{field.type}; cast it to another type, or drop it"
            ) from None
    return table


def _plain(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_string_view(kind):
        return pa.large_string()
    if pa.types.is_binary_view(kind):
        return pa.large_binary()
    if pa.types.is_list(kind):
        return pa.list_(_plain(kind.value_type))
    if pa.types.is_large_list(kind):
        return pa.large_list(_plain(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_plain(field.type)) for field in kind])
    return kind
