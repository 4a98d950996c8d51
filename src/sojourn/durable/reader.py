"""The reader: outcomes, batches and positions, read from the file by any thread.

The store is a reader that writes too. `OutcomesReader` reads a file that another process has open.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from pathlib import Path
from typing import Any

from sojourn.durable.answers import JournalBatch, Operation, operation_of
from sojourn.durable.positions import read_keepers, read_subscriptions
from sojourn.durable.records import read_batch
from sojourn.durable.schema import check_row, damaged, has_tables, naming
from sojourn.errors import Missed, NoSuchFile

OUTCOME = "number, id_hash, status, submitted_ms, at_ms, by_key, told_ms, content, checksum"


class Reader:
    """Reads over one connection, one thread at a time."""

    def __init__(self, path: str, connection: Any) -> None:
        self.path = path
        self._reader = connection
        self._reading = threading.Lock()

    def outcomes(self, after: int, until: int, limit: int) -> list[Operation]:
        """Return outcomes with numbers above `after`, up to `until`, in order."""
        with naming(self.path, "reading outcomes"), self._reading:
            return self._outcomes(after, until, limit)

    def _outcomes(self, after: int, until: int, limit: int) -> list[Operation]:
        rows = self._reader.execute(
            f"SELECT {OUTCOME} FROM outcomes WHERE number > ? AND number <= ? "
            "ORDER BY number LIMIT ?",
            (after, until, limit),
        )
        return [self._operation(row) for row in rows]

    def first_outcome(self) -> int:
        """Return the number of the oldest outcome that is there; 0 if there is none."""
        with naming(self.path, "reading outcomes"), self._reading:
            (first,) = self._reader.execute("SELECT min(number) FROM outcomes").fetchone()
        return first or 0

    def batches(self, after: int, until: int, limit: int) -> list[JournalBatch]:
        """Return batches with numbers above `after`, up to `until`, in order."""
        with naming(self.path, "reading the journal"), self._reading:
            rows = self._reader.execute(
                "SELECT batch, time_ms, first_sequence, last_outcome, body, checksum "
                "FROM journal WHERE batch > ? AND batch <= ? ORDER BY batch LIMIT ?",
                (after, until, limit),
            ).fetchall()
            return [self._batch(row) for row in rows]

    def _batch(self, row: tuple[Any, ...]) -> JournalBatch:
        *fields, checksum = row
        batch, time_ms, _, last_outcome, body = fields
        check_row(self.path, checksum, f"batch {batch} of the journal", *fields)
        record = read_batch(body)
        count = len(record.ended) + len(record.cancelled)
        outcomes = self._outcomes(last_outcome - count, last_outcome, count) if count else []
        if len(outcomes) != count:
            raise Missed(
                f"outcomes of batch {batch} of {self.path} were removed by retention; "
                "name a position with keep_journal before it is too late",
                batch,
            )
        return JournalBatch.of(batch, time_ms, record, outcomes)

    def subscriptions(self) -> dict[str, int]:
        """Return the positions of all subscriptions, by name."""
        with naming(self.path, "reading subscriptions"), self._reading:
            return read_subscriptions(self._reader, self.path)

    def _operation(self, row: tuple[Any, ...]) -> Operation:
        operation = operation_of(tuple(row))
        if operation is None:
            raise damaged(self.path, f"outcome {row[0]}")
        return operation


class OutcomesReader(Reader):
    """Reads the outcomes of a file beside the process that has it open, and changes nothing."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        name = os.fspath(path)
        if not Path(name).is_file():
            raise NoSuchFile(f"there is no file {name}; give the one of a durable purgatory")
        with naming(name, "opening it"):
            uri = f"{Path(name).absolute().as_uri()}?mode=ro"
            connection = sqlite3.connect(uri, uri=True, isolation_level=None)
            try:
                has_tables(connection, name)
            except BaseException:
                connection.close()
                raise
        super().__init__(name, connection)

    def numbers(self) -> tuple[int, int]:
        """Return the numbers of the oldest and the newest outcome that are there.

        If there is none, the oldest is one more than the newest.
        """
        with naming(self.path, "reading outcomes"):
            oldest, newest = self._reader.execute(
                "SELECT min(number), max(number) FROM outcomes"
            ).fetchone()
            if oldest is None:
                (newest,) = self._reader.execute(
                    "SELECT max(last_outcome) FROM (SELECT last_outcome FROM journal "
                    "UNION ALL SELECT last_outcome FROM snapshots)"
                ).fetchone()
                newest = newest or 0
                oldest = newest + 1
        return oldest, newest

    def journal_readers(self) -> dict[str, int]:
        """How far readers of the journal have come, by name."""
        with naming(self.path, "reading keepers"):
            keepers = read_keepers(self._reader, self.path)
        return {name: keeper.batch for name, keeper in keepers.items()}

    def __enter__(self) -> OutcomesReader:
        return self

    def __exit__(self, *_: object) -> None:
        self._reader.close()
