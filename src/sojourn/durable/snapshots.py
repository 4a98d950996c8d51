"""Snapshots: what waits, and how far keys have come, written to the file in pieces.

A snapshot is due when the journal since the last one has become long. It notes what there is to
write, and then each batch's transaction writes one piece more, while the journal goes on:

    batch 7     begin: note all keys and all that waits
    batch 8     part 0   keys
    batch 9     part 1   operations
    batch 10    part 2   operations, but those that have ended since
    batch 11    complete: the row of the snapshot; the one before is removed

An operation that ended after the beginning may be in a part or not; the journal says that it has
ended. A transaction that fails takes its piece with it, and the snapshot starts anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from sojourn.durable.machine import Machine
from sojourn.durable.records import checksum_of, write_progress
from sojourn.durable.schema import check_row
from sojourn.errors import BadFile

WAITING, PROGRESS = 0, 1  # kinds of parts
PIECE_BYTES = 200_000  # about
_PIECE_OPERATIONS = 1_000  # a batch has to wait for its piece
_PIECE_KEYS = 2_000
_JOURNAL_BYTES_LEAST = 32 << 20  # due when the journal is longer than that, and than the snapshot
_PARTS_REMOVED_AT_ONCE = 8


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
class Running:
    """A snapshot on its way to the file."""

    header: Header
    progress: list[tuple[str, int, int]]
    waiting: list[Any]
    keys_done: int = 0
    operations_done: int = 0


class Snapshots:
    """The last complete snapshot of a file, and the one that is being written."""

    def __init__(self, path: str, connection: Any) -> None:
        self._path = path
        self._connection = connection
        self._running: Running | None = None
        self._has_stale_parts = True  # of snapshots that are no longer of use
        self.last: Header | None = None
        self.journal_bytes = 0  # of the journal since the last one

    # Reading.

    def read_header(self) -> None:
        """Read which snapshot is the last complete one."""
        row = self._connection.execute(
            "SELECT * FROM snapshots WHERE is_complete ORDER BY snapshot DESC LIMIT 1"
        ).fetchone()
        if row is None:
            return
        *fields, checksum = row
        header = Header(*fields)
        check_row(self._path, checksum, f"snapshot {header.snapshot}", *header)
        (count,) = self._connection.execute(
            "SELECT count(*) FROM parts WHERE snapshot = ?", (header.snapshot,)
        ).fetchone()
        if count != header.parts:
            raise BadFile(
                f"{self._path}: snapshot {header.snapshot} has {count} parts, not {header.parts}"
            )
        self.last = header

    def read_parts(self, kind: int) -> Iterator[bytes]:
        """The last snapshot's parts of this kind."""
        if self.last is None:
            return
        snapshot = self.last.snapshot
        rows = self._connection.execute(
            "SELECT part, body, checksum FROM parts WHERE snapshot = ? AND kind = ? ORDER BY part",
            (snapshot, kind),
        )
        for part, body, checksum in rows:
            name = f"part {part} of snapshot {snapshot}"
            check_row(self._path, checksum, name, snapshot, part, kind, body)
            yield body

    # Writing, a piece at a time.

    @property
    def is_running(self) -> bool:
        """Whether one is on its way to the file."""
        return self._running is not None

    @property
    def has_work(self) -> bool:
        """Whether the next transaction has something to write or to remove."""
        return self.is_running or self._has_stale_parts or self._is_due()

    def _is_due(self) -> bool:
        return self.journal_bytes > max(_JOURNAL_BYTES_LEAST, self.last.bytes if self.last else 0)

    def step(self, machine: Machine, last_batch: int, added: int) -> Callable[[], bool]:
        """Write one piece, larger than what was added.

        Return what to call when it is committed, which says whether the snapshot is complete.
        """
        running = self._running
        if running is None:
            if self._has_stale_parts:
                self._remove_stale_parts()
            if self._is_due():
                self._begin(machine, last_batch)
            return _incomplete
        header = running.header
        keys = running.progress[running.keys_done : running.keys_done + _PIECE_KEYS]
        done = running.operations_done
        operations = running.waiting[done : done + _PIECE_OPERATIONS + 2 * added]
        if keys:
            kind, body = PROGRESS, write_progress(keys)
        elif operations:
            kind, body = WAITING, machine.write_parked(operations)
        else:
            return self._complete(header)
        row = (header.snapshot, header.parts, kind, body)
        self._connection.execute(
            "INSERT INTO parts VALUES (?, ?, ?, ?, ?)", (*row, checksum_of(*row))
        )

        def then() -> bool:
            if keys:
                running.keys_done += len(keys)
            else:
                running.operations_done += len(operations)
            running.header = header._replace(parts=header.parts + 1, bytes=header.bytes + len(body))
            return False

        return then

    def start_again(self) -> None:
        """The transaction failed, and what a step wrote is gone with it."""
        self._running = None
        self._has_stale_parts = True

    def _begin(self, machine: Machine, last_batch: int) -> None:
        """Note what there is to write: the state before the batch of this transaction."""
        number = self.last.snapshot + 1 if self.last else 1
        self._connection.execute("DELETE FROM parts WHERE snapshot = ?", (number,))
        position = (last_batch, machine.time_ms, machine.sequence, machine.outcome)
        header = Header(number, *position, parts=0, bytes=0, is_complete=0)
        self._running = Running(header, machine.all_progress(), machine.parked())

    def _complete(self, header: Header) -> Callable[[], bool]:
        header = header._replace(is_complete=1)
        execute = self._connection.execute
        execute(
            "INSERT INTO snapshots VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (*header, checksum_of(*header)),
        )
        execute("DELETE FROM snapshots WHERE snapshot < ?", (header.snapshot,))
        (journal_bytes,) = execute(
            "SELECT coalesce(sum(length(body)), 0) FROM journal WHERE batch > ?", (header.batch,)
        ).fetchone()

        def then() -> bool:
            self._running = None
            self._has_stale_parts = True
            self.last = header
            self.journal_bytes = journal_bytes
            return True

        return then

    def _remove_stale_parts(self) -> None:
        last = self.last.snapshot if self.last else 0
        self._connection.execute(
            "DELETE FROM parts WHERE rowid IN "
            "(SELECT rowid FROM parts WHERE snapshot != ? LIMIT ?)",
            (last, _PARTS_REMOVED_AT_ONCE),
        )
        (changes,) = self._connection.execute("SELECT changes()").fetchone()
        self._has_stale_parts = changes == _PARTS_REMOVED_AT_ONCE


def _incomplete() -> bool:
    return False
