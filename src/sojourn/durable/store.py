"""The store: one SQLite file. docs/durable-format.md draws its tables.

    journal     what every batch asked for and ended, in order
    snapshots   what waited, and how far keys had come, as of some batch; in parts
    parts
    outcomes    how operations ended, by number and by a hash of the id
    subscriptions   how far readers of outcomes have come
    keepers     how far readers of the journal have come

A batch is one transaction, and a transaction that was committed is on disk (WAL, synchronous
FULL). Starting up, the state is put together from facts, and nothing is decided again:

    waiting  = parts of the last complete snapshot + submissions in the journal since
               - operations that a batch since has ended
    progress = parts of the last complete snapshot, moved by the signals since

So it does not matter at which moment after its start a part of a snapshot was written; it is
written in pieces, each with a batch, while the journal goes on. When the last piece is there, the
journal up to the snapshot's start is removed, but for what a keeper has not read.

Every row has a checksum. The writer's connection belongs to one thread; readers share another.

Now and then what is in the log has to go into the file itself (a checkpoint), which takes many
writes and a sync. By default a commit does that when the log has become long enough. A `Writer`
has a thread of its own for it (`checkpoint`), so that no batch waits; in the end the writer adds
the little that came meanwhile (`finish_checkpoint`), upon which the log starts again at its
beginning.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from sojourn.durable.answers import (
    JournalBatch,
    Operation,
    operation_of,
    outcome_rows,
)
from sojourn.durable.machine import Machine, Plan
from sojourn.durable.records import (
    BatchRecord,
    Parked,
    checksum_of,
    hashes_of,
    read_batch,
    read_parked,
    read_progress,
    write_batch,
    write_progress,
)
from sojourn.errors import BadFile, Missed, NoSuchFile, SojournError

APPLICATION = 0x534F4A57  # "SOJW"
FORMAT = 1

_WAITING, _PROGRESS = 0, 1  # kinds of parts
_PIECE_OPERATIONS = 1_000  # a batch has to wait for its piece
_PIECE_KEYS = 2_000
_PIECE_BYTES = 200_000  # about
_JOURNAL_BYTES_LEAST = 32 << 20  # a snapshot is taken when the journal is longer than that,
_PARTS_REMOVED_AT_ONCE = 8  # and than the snapshot before
_OUTCOMES_REMOVED_AT_ONCE = 2_000
_BATCHES_REMOVED_AT_ONCE = 8  # more than come in
_IDS_AT_ONCE = 512  # at most 999 variables, which every SQLite takes
_ROWS_AT_ONCE = 64
_PAGE_BYTES = 4096
_CACHE_KILOBYTES = 64 << 10
_CHECKPOINT_PAGES = 4_000
_LAST = 2**62

_SCHEMA = """
CREATE TABLE hashing (prime INTEGER NOT NULL, checksum INTEGER NOT NULL);
CREATE TABLE journal (
    batch INTEGER PRIMARY KEY, time_ms INTEGER NOT NULL, first_sequence INTEGER NOT NULL,
    last_outcome INTEGER NOT NULL, body BLOB NOT NULL, checksum INTEGER NOT NULL);
CREATE TABLE snapshots (
    snapshot INTEGER PRIMARY KEY, batch INTEGER NOT NULL, time_ms INTEGER NOT NULL,
    sequence INTEGER NOT NULL, last_outcome INTEGER NOT NULL, parts INTEGER NOT NULL,
    bytes INTEGER NOT NULL, is_complete INTEGER NOT NULL, checksum INTEGER NOT NULL);
CREATE TABLE parts (
    snapshot INTEGER NOT NULL, part INTEGER NOT NULL, kind INTEGER NOT NULL, body BLOB NOT NULL,
    checksum INTEGER NOT NULL, PRIMARY KEY (snapshot, part));
CREATE TABLE outcomes (
    number INTEGER PRIMARY KEY, id_hash INTEGER NOT NULL, status INTEGER NOT NULL,
    submitted_ms INTEGER NOT NULL, at_ms INTEGER NOT NULL, by_key TEXT,
    told_ms INTEGER NOT NULL, content BLOB NOT NULL, checksum INTEGER NOT NULL);
CREATE INDEX outcomes_by_id ON outcomes (id_hash);
CREATE TABLE subscriptions (
    name TEXT PRIMARY KEY, position INTEGER NOT NULL, at_ms INTEGER NOT NULL,
    checksum INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE keepers (
    name TEXT PRIMARY KEY, batch INTEGER NOT NULL, last_outcome INTEGER NOT NULL,
    at_ms INTEGER NOT NULL, checksum INTEGER NOT NULL) WITHOUT ROWID;
"""

_OUTCOME = "number, id_hash, status, submitted_ms, at_ms, by_key, told_ms, content, checksum"
_OUTCOME_MARKS = "(?, ?, ?, ?, ?, ?, ?, ?, ?)"

Connect = Callable[[str], Any]


def connect(path: str) -> sqlite3.Connection:
    """Open the file, for whichever thread."""
    return sqlite3.connect(path, timeout=10, isolation_level=None, check_same_thread=False)


class Header(NamedTuple):
    """A snapshot's row, but for its checksum."""

    snapshot: int
    batch: int  # the last one before its start
    time_ms: int
    sequence: int
    last_outcome: int
    parts: int
    bytes: int
    is_complete: int


@dataclass
class Journal:
    """The batches since the snapshot, and where they lead."""

    time_ms: int = -1  # of the last batch
    sequence: int = 0  # of its last command
    outcome: int = 0  # the number of its last one
    batches: list[tuple[int, BatchRecord]] = field(default_factory=list)  # with their times
    ended: set[int] = field(default_factory=set)  # numbers of operations

    def add(self, time_ms: int, last_outcome: int, record: BatchRecord) -> None:
        """Take in the next batch."""
        self.time_ms = time_ms
        self.outcome = last_outcome
        self.sequence += len(record.signals) + len(record.submissions) + len(record.cancelled)
        self.ended.update(record.ended, record.cancelled)
        self.batches.append((time_ms, record))


class Keeper(NamedTuple):
    """How far a reader of the journal has come."""

    batch: int
    last_outcome: int  # the number of the last one up to that batch


class Positions(NamedTuple):
    """New positions, to be written with a batch."""

    subscriptions: dict[str, int | None]  # numbers of outcomes by name; None removes one
    keepers: dict[str, int | None]  # numbers of batches, likewise

    def __bool__(self) -> bool:
        return bool(self.subscriptions or self.keepers)


NO_POSITIONS = Positions({}, {})


@dataclass
class Running:
    """A snapshot on its way to the file."""

    header: Header
    progress: list[tuple[str, int, int]]
    waiting: list[Any]
    keys_done: int = 0
    operations_done: int = 0


class Store:
    """The file. `load` first; then `write` batches, and read."""

    def __init__(self, path: str | os.PathLike[str], connect: Connect = connect) -> None:
        self.path = os.fspath(path)
        self._connect = connect
        self._running: Running | None = None
        self._last_batch = 0
        self._journal_bytes = 0
        self._snapshot: Header | None = None
        self._keepers: dict[str, Keeper] = {}
        self._stale_batches = False  # of the journal, covered by the snapshot
        self._stale_parts = True  # of snapshots that are no longer of use
        self._oldest_ms: int | None = None  # when the oldest outcome was told, if that is known
        self._prime = 0  # by which ids are hashed
        self._reading = threading.Lock()
        self._log_bytes: int | None = None  # since a checkpoint, about; None: SQLite sees to it
        fresh = not Path(self.path).exists() or Path(self.path).stat().st_size == 0
        if not fresh and not os.access(self.path, os.W_OK):
            raise BadFile(f"{self.path} cannot be written; change its permissions")
        with self._naming("opening it"):
            self._writer = connect(self.path)
            try:
                self._open(fresh)
                self._reader = connect(self.path)
            except BaseException:
                self._writer.close()
                raise

    def _check_kind(self) -> bool:
        """See that it is a file of ours, or a new one; say whether it has tables."""
        execute = self._writer.execute
        (application,) = execute("PRAGMA application_id").fetchone()
        (version,) = execute("PRAGMA user_version").fetchone()
        (tables,) = execute("SELECT count(*) FROM sqlite_master").fetchone()
        if tables and application != APPLICATION:
            raise BadFile(
                f"{self.path} is an SQLite file of another program; give a file of its own"
            )
        if version > FORMAT:
            raise BadFile(
                f"{self.path} has format {version}, and this version of sojourn reads up to "
                f"{FORMAT}; use the newer sojourn that wrote it"
            )
        return bool(tables)

    def _open(self, fresh: bool) -> None:
        execute = self._writer.execute
        tables = self._check_kind()
        (mode,) = execute("PRAGMA journal_mode = WAL").fetchone()
        if mode != "wal":
            raise BadFile(
                f"{self.path} cannot have a write-ahead log (journal mode {mode}); "
                "it must be a file on a local disk"
            )
        execute("PRAGMA synchronous = FULL")
        execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
        if not tables:
            execute("BEGIN IMMEDIATE")
            for statement in _SCHEMA.split(";"):
                if statement.strip():
                    execute(statement)
            prime = _some_prime()
            execute("INSERT INTO hashing VALUES (?, ?)", (prime, checksum_of(prime)))
            execute(f"PRAGMA application_id = {APPLICATION}")
            execute(f"PRAGMA user_version = {FORMAT}")
            execute("COMMIT")
            if fresh:
                _sync_folder(self.path)
        execute(f"PRAGMA cache_size = -{_CACHE_KILOBYTES}")
        prime, checksum = execute("SELECT prime, checksum FROM hashing").fetchone()
        self._check(checksum, "the prime for hashing", prime)
        self._prime = prime

    def close(self) -> None:
        """Close the file. What was written is on disk already."""
        self._reader.close()
        self._writer.close()

    # Checkpoints.

    def checkpoint_elsewhere(self) -> None:
        """From now on somebody calls `checkpoint` when `is_log_long`."""
        with self._naming("opening it"):
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

    # Starting up.

    def load(self, machine: Machine) -> None:
        """Put the machine into the state that the file has."""
        with self._naming("reading it"):
            self._keepers = self._read_keepers()
            state = self._read_journal(self._read_header())
            (first,) = self._writer.execute("SELECT min(batch) FROM journal").fetchone()
            self._stale_batches = first is not None and first <= self._removable(self._keepers)
            progress = self._read_progress(state)
            machine.restore(
                state.time_ms,
                state.sequence,
                state.outcome,
                ((key, *value) for key, value in progress.items()),
                self._read_parked(state),
            )

    def _read_keepers(self) -> dict[str, Keeper]:
        keepers = {}
        for name, batch, last_outcome, at_ms, checksum in self._writer.execute(
            "SELECT name, batch, last_outcome, at_ms, checksum FROM keepers"
        ):
            self._check(checksum, f"keeper {name!r}", name, batch, last_outcome, at_ms)
            keepers[name] = Keeper(batch, last_outcome)
        return keepers

    def _read_header(self) -> Header | None:
        row = self._writer.execute(
            "SELECT * FROM snapshots WHERE is_complete ORDER BY snapshot DESC LIMIT 1"
        ).fetchone()
        if row is None:
            return None
        *fields, checksum = row
        header = Header(*fields)
        self._check(checksum, f"snapshot {header.snapshot}", *header)
        (count,) = self._writer.execute(
            "SELECT count(*) FROM parts WHERE snapshot = ?", (header.snapshot,)
        ).fetchone()
        if count != header.parts:
            raise BadFile(
                f"{self.path}: snapshot {header.snapshot} has {count} parts, not {header.parts}"
            )
        self._snapshot = header
        return header

    def _read_journal(self, header: Header | None) -> Journal:
        """Read the batches since the snapshot, and see that none is missing."""
        journal = Journal()
        batch = 0
        if header is not None:
            batch, journal.time_ms = header.batch, header.time_ms
            journal.sequence, journal.outcome = header.sequence, header.last_outcome
        rows = self._writer.execute(
            "SELECT batch, time_ms, first_sequence, last_outcome, body, checksum "
            "FROM journal WHERE batch > ? ORDER BY batch",
            (batch,),
        )
        for number, time_ms, first_sequence, last_outcome, body, checksum in rows:
            name = f"batch {number} of the journal"
            follows = number == batch + 1 and time_ms > journal.time_ms
            if not follows or first_sequence != journal.sequence + 1:
                raise BadFile(f"{self.path}: {name} does not follow batch {batch}")
            self._check(checksum, name, number, time_ms, first_sequence, last_outcome, body)
            journal.add(time_ms, last_outcome, read_batch(body))
            self._journal_bytes += len(body)
            batch = number
        self._last_batch = batch
        (last,) = self._writer.execute("SELECT max(number) FROM outcomes").fetchone()
        if last is not None and last > journal.outcome:
            raise BadFile(f"{self.path}: outcome {last} is in no batch; the journal ends too early")
        return journal

    def _read_progress(self, journal: Journal) -> dict[str, tuple[int, int]]:
        """How far keys have come, and since when: as of the snapshot, and moved since."""
        progress: dict[str, tuple[int, int]] = {}
        for body in self._read_parts(_PROGRESS):
            for key, offset, idle_since_ms in read_progress(body):
                progress[key] = (offset, idle_since_ms)
        for time_ms, record in journal.batches:
            for key, offset in record.signals:
                progress[key] = (offset, time_ms)
            for key in record.forgotten:
                del progress[key]
        return progress

    def _read_parked(self, journal: Journal) -> Iterator[Parked]:
        """What waits, in the order of submission."""
        ended = journal.ended
        number = self._snapshot.sequence if self._snapshot else 0
        for body in self._read_parts(_WAITING):
            for parked in read_parked(body):
                if parked[0] not in ended:
                    yield parked
        for time_ms, record in journal.batches:
            number += len(record.signals)
            for content in record.submissions:
                number += 1
                if number not in ended:
                    yield number, time_ms, content
            number += len(record.cancelled)
            record.submissions.clear()

    def _read_parts(self, kind: int) -> Iterator[bytes]:
        if self._snapshot is None:
            return
        snapshot = self._snapshot.snapshot
        rows = self._writer.execute(
            "SELECT part, body, checksum FROM parts WHERE snapshot = ? AND kind = ? ORDER BY part",
            (snapshot, kind),
        )
        for part, body, checksum in rows:
            name = f"part {part} of snapshot {snapshot}"
            self._check(checksum, name, snapshot, part, kind, body)
            yield body

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
            self._journal_bytes += wrote
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
            stale_batches = self._remove_batches(keepers)
            step = self._snapshot_step(machine, len(plan.record.submissions))
            execute("COMMIT")
        except BaseException:
            with contextlib.suppress(Exception):
                execute("ROLLBACK")
            # What a step of a snapshot put together went with the transaction.
            self._running = None
            self._stale_parts = True
            raise
        self._oldest_ms = oldest_ms
        self._keepers = keepers
        self._stale_batches = stale_batches
        if len(plan):
            self._last_batch += 1
            self._journal_bytes += wrote
        self._count_log(wrote + (_PIECE_BYTES if self._running else 0), len(plan.outcomes))
        step()

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
            and not (plan.outcomes or positions or self._running or self._stale_parts)
            and not (self._stale_batches or self._is_snapshot_due())
            and not self._may_remove_outcomes(remove_before_ms)
        )

    def _may_remove_outcomes(self, before_ms: int | None) -> bool:
        return before_ms is not None and (self._oldest_ms is None or self._oldest_ms < before_ms)

    def _is_snapshot_due(self) -> bool:
        least = max(_JOURNAL_BYTES_LEAST, self._snapshot.bytes if self._snapshot else 0)
        return self._journal_bytes > least

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
        """Many in one statement: `executemany` lets go of the GIL, and asks for it, for each."""
        at = 0
        while at < len(rows):
            # Of few different lengths, for which SQLite has the statement ready.
            length = min(_ROWS_AT_ONCE, 1 << ((len(rows) - at).bit_length() - 1))
            marks = ",".join([_OUTCOME_MARKS] * length)
            self._writer.execute(
                f"INSERT INTO outcomes ({_OUTCOME}) VALUES {marks}",
                [*chain.from_iterable(rows[at : at + length])],
            )
            at += length

    def _write_positions(self, positions: Positions, time_ms: int) -> dict[str, Keeper]:
        """Write them; return the keepers as they are then."""
        if not positions:
            return self._keepers
        execute = self._writer.execute
        for name, number in positions.subscriptions.items():
            if number is None:
                execute("DELETE FROM subscriptions WHERE name = ?", (name,))
                continue
            row = (name, number, time_ms)
            execute(
                "INSERT OR REPLACE INTO subscriptions VALUES (?, ?, ?, ?)",
                (*row, checksum_of(*row)),
            )
        keepers = dict(self._keepers)
        for name, batch in positions.keepers.items():
            if batch is None:
                execute("DELETE FROM keepers WHERE name = ?", (name,))
                keepers.pop(name, None)
                continue
            (last_outcome,) = execute(
                "SELECT coalesce(max(last_outcome), 0) FROM journal WHERE batch <= ?", (batch,)
            ).fetchone()
            keeper = (name, batch, last_outcome, time_ms)
            execute(
                "INSERT OR REPLACE INTO keepers VALUES (?, ?, ?, ?, ?)",
                (*keeper, checksum_of(*keeper)),
            )
            keepers[name] = Keeper(batch, last_outcome)
        return keepers

    def _remove_outcomes(
        self, before_ms: int | None, added: int, keepers: dict[str, Keeper]
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

    def _remove_batches(self, keepers: dict[str, Keeper]) -> bool:
        """Remove some of the journal that is in the snapshot; say whether there may be more."""
        if not self._stale_batches and keepers is self._keepers:
            return False
        upto = self._removable(keepers)
        (first,) = self._writer.execute("SELECT min(batch) FROM journal").fetchone()
        if first is None or first > upto:
            return False
        last: int = min(upto, first + _BATCHES_REMOVED_AT_ONCE - 1)
        self._writer.execute("DELETE FROM journal WHERE batch <= ?", (last,))
        return last < upto

    def _removable(self, keepers: dict[str, Keeper]) -> int:
        """The last batch that the snapshot covers and every keeper has read."""
        covered = self._snapshot.batch if self._snapshot else 0
        return min([covered, *(keeper.batch for keeper in keepers.values())])

    # Snapshots, a piece at a time.

    @property
    def has_more_to_write(self) -> bool:
        """Whether a snapshot is on its way: `write` again soon, also without commands."""
        return self._running is not None or self._stale_batches

    def _snapshot_step(self, machine: Machine, added: int) -> Callable[[], None]:
        """Write one piece, larger than what was added; return what to do when it is committed."""
        running = self._running
        if running is None:
            if self._stale_parts:
                self._remove_stale()
            if self._is_snapshot_due():
                self._begin_snapshot(machine)
            return _nothing
        header = running.header
        keys = running.progress[running.keys_done : running.keys_done + _PIECE_KEYS]
        done = running.operations_done
        operations = running.waiting[done : done + _PIECE_OPERATIONS + 2 * added]
        if keys:
            kind, body = _PROGRESS, write_progress(keys)
        elif operations:
            kind, body = _WAITING, machine.write_parked(operations)
        else:
            return self._complete_snapshot(header)
        self._writer.execute(
            "INSERT INTO parts VALUES (?, ?, ?, ?, ?)",
            (
                header.snapshot,
                header.parts,
                kind,
                body,
                checksum_of(header.snapshot, header.parts, kind, body),
            ),
        )

        def then() -> None:
            if keys:
                running.keys_done += len(keys)
            else:
                running.operations_done += len(operations)
            running.header = header._replace(parts=header.parts + 1, bytes=header.bytes + len(body))

        return then

    def _begin_snapshot(self, machine: Machine) -> None:
        """Note what there is to write: the state before the batch of this transaction."""
        number = self._snapshot.snapshot + 1 if self._snapshot else 1
        self._writer.execute("DELETE FROM parts WHERE snapshot = ?", (number,))
        self._running = Running(
            Header(
                number,
                self._last_batch,
                machine.time_ms,
                machine.sequence,
                machine.outcome,
                0,
                0,
                0,
            ),
            machine.all_progress(),
            machine.parked(),
        )

    def _complete_snapshot(self, header: Header) -> Callable[[], None]:
        header = header._replace(is_complete=1)
        self._writer.execute(
            "INSERT INTO snapshots VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (*header, checksum_of(*header)),
        )
        self._writer.execute("DELETE FROM snapshots WHERE snapshot < ?", (header.snapshot,))
        (length,) = self._writer.execute(
            "SELECT coalesce(sum(length(body)), 0) FROM journal WHERE batch > ?", (header.batch,)
        ).fetchone()

        def then() -> None:
            self._running = None
            self._snapshot = header
            self._journal_bytes = length
            self._stale_parts = True
            self._stale_batches = True

        return then

    def _remove_stale(self) -> None:
        current = self._snapshot.snapshot if self._snapshot else 0
        self._writer.execute(
            "DELETE FROM parts WHERE rowid IN "
            "(SELECT rowid FROM parts WHERE snapshot != ? LIMIT ?)",
            (current, _PARTS_REMOVED_AT_ONCE),
        )
        (changes,) = self._writer.execute("SELECT changes()").fetchone()
        self._stale_parts = changes == _PARTS_REMOVED_AT_ONCE

    # Reading, from any thread.

    def find(self, ids: list[str], *, writing: bool = False) -> dict[str, Operation]:
        """Return the ended operations among these ids.

        The writer asks over its own connection, and waits for no reader.
        """
        ended: dict[str, Operation] = {}
        connection = self._writer if writing else self._reader
        with self._naming("reading outcomes"), nullcontext() if writing else self._reading:
            for at in range(0, len(ids), _IDS_AT_ONCE):
                hashes = hashes_of(ids[at : at + _IDS_AT_ONCE], self._prime)
                # Of few different lengths, for which SQLite has the statement ready.
                length = 1 << (len(hashes) - 1).bit_length()
                hashes += [hashes[0]] * (length - len(hashes))
                marks = ",".join("?" * length)
                rows = connection.execute(
                    f"SELECT {_OUTCOME} FROM outcomes WHERE id_hash IN ({marks})", hashes
                )
                for row in rows.fetchall():
                    operation = self._operation(row)
                    ended[operation.id] = operation
        return ended

    def outcomes(self, after: int, until: int, limit: int) -> list[Operation]:
        """Return outcomes with numbers above `after`, up to `until`, in order."""
        with self._naming("reading outcomes"), self._reading:
            return self._outcomes(after, until, limit)

    def _outcomes(self, after: int, until: int, limit: int) -> list[Operation]:
        rows = self._reader.execute(
            f"SELECT {_OUTCOME} FROM outcomes WHERE number > ? AND number <= ? "
            "ORDER BY number LIMIT ?",
            (after, until, limit),
        )
        return [self._operation(row) for row in rows]

    def first_outcome(self) -> int:
        """Return the number of the oldest outcome that is there; 0 if there is none."""
        with self._naming("reading outcomes"), self._reading:
            (first,) = self._reader.execute("SELECT min(number) FROM outcomes").fetchone()
        return first or 0

    def batches(self, after: int, until: int, limit: int) -> list[JournalBatch]:
        """Return batches with numbers above `after`, up to `until`, in order."""
        with self._naming("reading the journal"), self._reading:
            rows = self._reader.execute(
                "SELECT batch, time_ms, first_sequence, last_outcome, body, checksum "
                "FROM journal WHERE batch > ? AND batch <= ? ORDER BY batch LIMIT ?",
                (after, until, limit),
            ).fetchall()
            batches = []
            for batch, time_ms, first_sequence, last_outcome, body, checksum in rows:
                name = f"batch {batch} of the journal"
                self._check(checksum, name, batch, time_ms, first_sequence, last_outcome, body)
                record = read_batch(body)
                count = len(record.ended) + len(record.cancelled)
                outcomes = []
                if count:
                    outcomes = self._outcomes(last_outcome - count, last_outcome, count)
                    if len(outcomes) != count:
                        raise Missed(
                            f"outcomes of batch {batch} of {self.path} were removed by retention; "
                            "name a position with keep_journal before it is too late",
                            batch,
                        )
                batches.append(JournalBatch.of(batch, time_ms, record, outcomes))
        return batches

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

    def subscriptions(self) -> dict[str, int]:
        """Return the positions of all subscriptions, by name."""
        with self._naming("reading subscriptions"), self._reading:
            positions = {}
            for name, position, at_ms, checksum in self._reader.execute(
                "SELECT name, position, at_ms, checksum FROM subscriptions"
            ):
                self._check(checksum, f"subscription {name!r}", name, position, at_ms)
                positions[name] = position
            return positions

    def _operation(self, row: tuple[Any, ...]) -> Operation:
        operation = operation_of(tuple(row))
        if operation is None:
            raise self._damaged(f"outcome {row[0]}")
        return operation

    def _check(self, checksum: int, name: str, *fields: Any) -> None:
        if checksum != checksum_of(*fields):
            raise self._damaged(name)

    def _damaged(self, name: str) -> BadFile:
        return BadFile(
            f"{self.path}: the checksum of {name} is wrong, the file is damaged; "
            "restore it from a copy"
        )

    @contextlib.contextmanager
    def _naming(self, what: str) -> Iterator[None]:
        """Turn SQLite's errors into ours, with the name of the file."""
        try:
            yield
        except SojournError:
            raise
        except Exception as error:
            raise BadFile(f"{self.path}: {what} failed: {error}") from error


def _some_prime() -> int:
    """A random prime of 48 bits."""
    while True:
        number = (1 << 47) | secrets.randbits(47) | 1
        if _is_prime(number):
            return number


def _is_prime(number: int) -> bool:
    """Miller and Rabin; with these bases it is certain below 3 * 10**14, which is 2**48."""
    odd, twos = number - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for base in (2, 3, 5, 7, 11, 13, 17):
        power = pow(base, odd, number)
        if power in (1, number - 1):
            continue
        for _ in range(twos - 1):
            power = power * power % number
            if power == number - 1:
                break
        else:
            return False
    return True


class OutcomesReader(Store):
    """Reads the outcomes of a file beside the process that has it open, and changes nothing."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self._reading = threading.Lock()
        if not Path(self.path).is_file():
            raise NoSuchFile(f"there is no file {self.path}; give the one of a durable purgatory")
        with self._naming("opening it"):
            name = f"{Path(self.path).absolute().as_uri()}?mode=ro"
            self._reader = self._writer = sqlite3.connect(name, uri=True, isolation_level=None)
            try:
                self._check_kind()
            except BaseException:
                self._reader.close()
                raise

    def numbers(self) -> tuple[int, int]:
        """Return the numbers of the oldest and the newest outcome that are there.

        If there is none, the oldest is one more than the newest.
        """
        with self._naming("reading outcomes"):
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
        with self._naming("reading keepers"):
            return {name: keeper.batch for name, keeper in self._read_keepers().items()}

    def __enter__(self) -> OutcomesReader:
        return self

    def __exit__(self, *_: object) -> None:
        self._reader.close()


def _nothing() -> None:
    pass


def _sync_folder(path: str) -> None:
    """See to it that a new file's name is on disk too."""
    if os.name == "posix":
        descriptor = os.open(os.path.dirname(os.path.abspath(path)), os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
