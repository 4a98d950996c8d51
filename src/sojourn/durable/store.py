"""The store: one SQLite file. docs/durable-format.md draws its tables.

    journal     what every batch asked for and ended, in order
    snapshots   what waited, and how far keys had come, as of some batch; in parts (snapshots.py)
    parts
    outcomes    how operations ended, by number and by a hash of the id
    subscriptions   how far readers of outcomes have come
    keepers     how far readers of the journal have come

A batch is one transaction, and a transaction that was committed is on disk (WAL, synchronous
FULL). Each transaction also moves a snapshot on. When the last part of a snapshot is there, the
journal up to the snapshot's start is removed, but for what a keeper has not read. loading.py puts
the state together again at the next start.

The writer's connection belongs to one thread; readers share another.

Now and then what is in the log has to go into the file itself (a checkpoint), which takes many
writes and a sync. By default a commit does that when the log has become long enough. A `Writer`
has a thread of its own for it (`checkpoint`), so that no batch waits; in the end the writer adds
the little that came meanwhile (`finish_checkpoint`), upon which the log starts again at its
beginning.
"""

from __future__ import annotations

import contextlib
import os
from itertools import chain
from pathlib import Path
from typing import Any

from sojourn.durable.answers import Operation, outcome_rows
from sojourn.durable.disk import sync
from sojourn.durable.loading import load
from sojourn.durable.machine import Machine
from sojourn.durable.plan import Plan
from sojourn.durable.positions import (
    NO_POSITIONS,
    JournalPosition,
    Positions,
    read_keepers,
    write_keepers,
    write_subscriptions,
)
from sojourn.durable.reader import OUTCOME, Reader
from sojourn.durable.records import checksum_of, hashes_of, write_batch
from sojourn.durable.schema import (
    Connect,
    connect,
    create_tables,
    has_tables,
    naming,
    read_prime,
)
from sojourn.durable.snapshots import PIECE_BYTES, Snapshots
from sojourn.errors import BadFile

_OUTCOMES_REMOVED_AT_ONCE = 2_000
_BATCHES_REMOVED_AT_ONCE = 8  # more than come in
_IDS_AT_ONCE = 512  # at most 999 variables, which every SQLite takes
_ROWS_AT_ONCE = 64
_OUTCOME_MARKS = "(?, ?, ?, ?, ?, ?, ?, ?, ?)"
_PAGE_BYTES = 4096
_CACHE_KILOBYTES = 64 << 10
_CHECKPOINT_PAGES = 4_000
_LAST = 2**62


class Store(Reader):
    """The file. `load` first; then `write` batches, and read."""

    def __init__(self, path: str | os.PathLike[str], connect: Connect = connect) -> None:
        name = os.fspath(path)
        self._connect = connect
        self._last_batch = 0
        self._keepers: dict[str, JournalPosition] = {}
        self._has_stale_batches = False  # in the journal, covered by the snapshot
        self._oldest_ms: int | None = None  # when the oldest outcome was told, if that is known
        self._log_bytes: int | None = None  # since a checkpoint, about; None: SQLite sees to it
        is_new = not Path(name).exists() or Path(name).stat().st_size == 0
        if not is_new and not os.access(name, os.W_OK):
            raise BadFile(f"{name} cannot be written; change its permissions")
        with naming(name, "opening it"):
            self._writer = connect(name)
            try:
                self._prime = _open(self._writer, name, is_new)
                super().__init__(name, connect(name))
            except BaseException:
                self._writer.close()
                raise
        self._snapshots = Snapshots(name, self._writer)

    def close(self) -> None:
        """Close the file. What was written is on disk already."""
        self._reader.close()
        self._writer.close()

    def load(self, machine: Machine) -> None:
        """Put the machine into the state that the file has."""
        with naming(self.path, "reading it"):
            self._keepers = read_keepers(self._writer, self.path)
            self._last_batch = load(self._writer, self.path, machine, self._snapshots)
            (first,) = self._writer.execute("SELECT min(batch) FROM journal").fetchone()
            self._has_stale_batches = first is not None and first <= self._removable(self._keepers)

    # Checkpoints.

    def checkpoint_elsewhere(self) -> None:
        """From now on the caller calls `checkpoint` when `is_log_long`."""
        with naming(self.path, "opening it"):
            self._writer.execute("PRAGMA wal_autocheckpoint = 0")
        self._log_bytes = 0

    @property
    def is_log_long(self) -> bool:
        """Whether it is time for a checkpoint."""
        return self._log_bytes is not None and self._log_bytes > _CHECKPOINT_PAGES * _PAGE_BYTES

    def checkpoint(self) -> None:
        """Bring most of the log into the file, beside the writer. Any thread, one at a time."""
        with contextlib.closing(self._connect(self.path)) as connection:
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()

    def put_off_checkpoint(self) -> None:
        """It failed: try again when the log is twice as long. Any thread."""
        self._log_bytes = 0

    def finish_checkpoint(self) -> None:
        """Bring the rest of the log into the file; the writer's thread."""
        self._writer.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        self._log_bytes = 0

    # Writing.

    def write(
        self,
        plan: Plan,
        machine: Machine,
        positions: Positions = NO_POSITIONS,
        remove_before_ms: int | None = None,
    ) -> None:
        """Put the plan, and readers' new positions, on disk: all of it, or raise.

        Within the same transaction outcomes that were told before `remove_before_ms` are removed,
        and a snapshot goes on.
        """
        if self._is_only_journal(plan, positions, remove_before_ms):
            # One statement is a transaction by itself: one turn of the GIL instead of three.
            wrote = self._write_batch(plan, machine)
            self._snapshots.journal_bytes += wrote
            self._last_batch += 1
            self._count_log(wrote, 0)
            return
        execute = self._writer.execute
        wrote = 0
        execute("BEGIN IMMEDIATE")
        try:
            if len(plan):
                wrote = self._write_batch(plan, machine)
            keepers = self._write_positions(positions, plan.time_ms)
            oldest_ms = self._remove_outcomes(remove_before_ms, len(plan.outcomes), keepers)
            if oldest_ms == _LAST and plan.outcomes:  # there was none
                oldest_ms = plan.time_ms
            has_stale_batches = self._remove_batches(keepers)
            added = len(plan.record.submissions)
            step_done = self._snapshots.step(machine, self._last_batch, added)
            execute("COMMIT")
        except BaseException:
            with contextlib.suppress(Exception):
                execute("ROLLBACK")
            self._snapshots.start_again()
            raise
        self._oldest_ms = oldest_ms
        self._keepers = keepers
        if len(plan):
            self._last_batch += 1
            self._snapshots.journal_bytes += wrote
        piece = PIECE_BYTES if self._snapshots.is_running else 0
        self._count_log(wrote + piece, len(plan.outcomes))
        self._has_stale_batches = step_done() or has_stale_batches

    def _count_log(self, bytes_: int, outcomes: int) -> None:
        """Guess how much longer the log is: an outcome changes a page of the index."""
        if self._log_bytes is not None:
            self._log_bytes += bytes_ + _PAGE_BYTES * (outcomes + 4)

    def _is_only_journal(
        self, plan: Plan, positions: Positions, remove_before_ms: int | None
    ) -> bool:
        """Whether there is a batch to write, and nothing beside it."""
        return (
            len(plan) > 0
            and not (plan.outcomes or positions)
            and not (self._has_stale_batches or self._snapshots.has_work)
            and not self._may_remove_outcomes(remove_before_ms)
        )

    def _may_remove_outcomes(self, before_ms: int | None) -> bool:
        return before_ms is not None and (self._oldest_ms is None or self._oldest_ms < before_ms)

    def _write_batch(self, plan: Plan, machine: Machine) -> int:
        body = write_batch(plan.record)
        row = (
            self._last_batch + 1,
            plan.time_ms,
            plan.first_sequence,
            machine.outcome + len(plan.outcomes),
            body,
        )
        self._writer.execute(
            "INSERT INTO journal VALUES (?, ?, ?, ?, ?, ?)", (*row, checksum_of(*row))
        )
        if plan.outcomes:
            self._write_outcomes(outcome_rows(plan.outcomes, plan.time_ms, self._prime))
        return len(body)

    def _write_outcomes(self, rows: list[tuple[Any, ...]]) -> None:
        """Many in one statement: `executemany` releases and takes the GIL for each."""
        at = 0
        while at < len(rows):
            # Of few different lengths, for which SQLite has the statement ready.
            length = min(_ROWS_AT_ONCE, 1 << ((len(rows) - at).bit_length() - 1))
            marks = ",".join([_OUTCOME_MARKS] * length)
            self._writer.execute(
                f"INSERT INTO outcomes ({OUTCOME}) VALUES {marks}",
                [*chain.from_iterable(rows[at : at + length])],
            )
            at += length

    def _write_positions(self, positions: Positions, time_ms: int) -> dict[str, JournalPosition]:
        """Write them; return the keepers as they are then."""
        if not positions:
            return self._keepers
        write_subscriptions(self._writer, positions.subscriptions, time_ms)
        return write_keepers(self._writer, self._keepers, positions.keepers, time_ms)

    def _remove_outcomes(
        self, before_ms: int | None, added: int, keepers: dict[str, JournalPosition]
    ) -> int | None:
        """Remove some of the outcomes that are too old; return when the oldest one was told.

        More than were added, so that it never falls behind; but none that a keeper has not read.
        """
        if before_ms is None or not self._may_remove_outcomes(before_ms):
            return self._oldest_ms
        upto = min((keeper.last_outcome for keeper in keepers.values()), default=_LAST)
        self._writer.execute(
            "DELETE FROM outcomes WHERE number IN "
            "(SELECT number FROM outcomes WHERE number <= ? ORDER BY number LIMIT ?) "
            "AND told_ms < ?",
            (upto, _OUTCOMES_REMOVED_AT_ONCE + 2 * added, before_ms),
        )
        row = self._writer.execute(
            "SELECT told_ms FROM outcomes ORDER BY number LIMIT 1"
        ).fetchone()
        return _LAST if row is None else row[0]

    def _remove_batches(self, keepers: dict[str, JournalPosition]) -> bool:
        """Remove some of the journal that is in the snapshot; say whether there may be more."""
        if not self._has_stale_batches and keepers is self._keepers:
            return False
        upto = self._removable(keepers)
        (first,) = self._writer.execute("SELECT min(batch) FROM journal").fetchone()
        if first is None or first > upto:
            return False
        last: int = min(upto, first + _BATCHES_REMOVED_AT_ONCE - 1)
        self._writer.execute("DELETE FROM journal WHERE batch <= ?", (last,))
        return last < upto

    def _removable(self, keepers: dict[str, JournalPosition]) -> int:
        """The last batch that the snapshot covers and every keeper has read."""
        covered = self._snapshots.last.batch if self._snapshots.last else 0
        return min([covered, *(keeper.batch for keeper in keepers.values())])

    @property
    def has_more_to_write(self) -> bool:
        """Whether a snapshot is on its way: `write` again soon, also without commands."""
        return self._snapshots.is_running or self._has_stale_batches

    # Looking, beside what a `Reader` reads.

    def find(self, ids: list[str]) -> dict[str, Operation]:
        """Return the ended operations among these ids. Any thread."""
        with naming(self.path, "reading outcomes"), self._reading:
            return self._find(self._reader, ids)

    def find_for_batch(self, ids: list[str]) -> dict[str, Operation]:
        """The same for the writer's thread: over its own connection, it waits for no reader."""
        with naming(self.path, "reading outcomes"):
            return self._find(self._writer, ids)

    def _find(self, connection: Any, ids: list[str]) -> dict[str, Operation]:
        ended: dict[str, Operation] = {}
        for at in range(0, len(ids), _IDS_AT_ONCE):
            hashes = hashes_of(ids[at : at + _IDS_AT_ONCE], self._prime)
            # Of few different lengths, for which SQLite has the statement ready.
            length = 1 << (len(hashes) - 1).bit_length()
            hashes += [hashes[0]] * (length - len(hashes))
            marks = ",".join("?" * length)
            rows = connection.execute(
                f"SELECT {OUTCOME} FROM outcomes WHERE id_hash IN ({marks})", hashes
            )
            for row in rows.fetchall():
                operation = self._operation(row)
                ended[operation.id] = operation
        return ended

    @property
    def last_batch(self) -> int:
        """The number of the last batch that was written."""
        return self._last_batch

    @property
    def keepers(self) -> dict[str, int]:
        """How far readers of the journal have come, by name. Any thread."""
        return {name: keeper.batch for name, keeper in self._keepers.items()}

    @property
    def file_bytes(self) -> int:
        """How large the file is, with its log. Any thread."""
        size = 0
        for path in (self.path, f"{self.path}-wal"):
            with contextlib.suppress(FileNotFoundError):
                size += os.stat(path).st_size
        return size


def _open(connection: Any, path: str, is_new: bool) -> int:
    """Make the connection the writer's, and the tables if there are none; return the prime."""
    execute = connection.execute
    exists = has_tables(connection, path)
    (mode,) = execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        raise BadFile(
            f"{path} cannot have a write-ahead log (journal mode {mode}); "
            "it must be a file on a local disk"
        )
    execute("PRAGMA synchronous = FULL")
    execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
    if not exists:
        create_tables(connection)
        if is_new:
            sync(Path(path).absolute().parent)  # the file's name too
    execute(f"PRAGMA cache_size = -{_CACHE_KILOBYTES}")
    return read_prime(connection, path)
