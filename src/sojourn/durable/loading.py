"""Loading: the state put together from the file at the start. Nothing is decided again.

    waiting  = parts of the last complete snapshot + submissions in the journal since
               - operations that a batch since has ended
    progress = parts of the last complete snapshot, moved by the signals since

So it does not matter at which moment after its start a part of a snapshot was written.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from sojourn.durable.machine import Machine
from sojourn.durable.records import BatchRecord, Parked, read_batch, read_parked, read_progress
from sojourn.durable.schema import check_row
from sojourn.durable.snapshots import PROGRESS, WAITING, Header, Snapshots
from sojourn.errors import BadFile


def load(connection: Any, path: str, machine: Machine, snapshots: Snapshots) -> int:
    """Put the machine into the state that the file has; return the number of the last batch."""
    snapshots.read_header()
    journal = _read_journal(connection, path, snapshots.last)
    snapshots.journal_bytes = journal.bytes
    progress = _progress(snapshots, journal)
    machine.restore(
        journal.time_ms,
        journal.sequence,
        journal.outcome,
        ((key, *value) for key, value in progress.items()),
        _parked(snapshots, journal),
    )
    return journal.batch


@dataclass
class Journal:
    """The batches since the snapshot, and where they lead."""

    batch: int = 0  # the number of the last one
    time_ms: int = -1  # its time
    sequence: int = 0  # of its last command
    outcome: int = 0  # the number of its last one
    batches: list[tuple[int, BatchRecord]] = field(default_factory=list)  # with their times
    ended: set[int] = field(default_factory=set)  # numbers of operations
    bytes: int = 0

    def add(self, batch: int, time_ms: int, last_outcome: int, record: BatchRecord) -> None:
        """Take in the next batch."""
        self.batch = batch
        self.time_ms = time_ms
        self.outcome = last_outcome
        self.sequence += len(record.signals) + len(record.submissions) + len(record.cancelled)
        self.ended.update(record.ended, record.cancelled)
        self.batches.append((time_ms, record))


def _read_journal(connection: Any, path: str, header: Header | None) -> Journal:
    """Read the batches since the snapshot, and see that none is missing."""
    journal = Journal()
    if header is not None:
        journal = Journal(header.batch, header.time_ms, header.sequence, header.last_outcome)
    rows = connection.execute(
        "SELECT batch, time_ms, first_sequence, last_outcome, body, checksum "
        "FROM journal WHERE batch > ? ORDER BY batch",
        (journal.batch,),
    )
    for number, time_ms, first_sequence, last_outcome, body, checksum in rows:
        name = f"batch {number} of the journal"
        follows = number == journal.batch + 1 and time_ms > journal.time_ms
        if not follows or first_sequence != journal.sequence + 1:
            raise BadFile(f"{path}: {name} does not follow batch {journal.batch}")
        check_row(path, checksum, name, number, time_ms, first_sequence, last_outcome, body)
        journal.add(number, time_ms, last_outcome, read_batch(body))
        journal.bytes += len(body)
    (last,) = connection.execute("SELECT max(number) FROM outcomes").fetchone()
    if last is not None and last > journal.outcome:
        raise BadFile(f"{path}: outcome {last} is in no batch; the journal ends too early")
    return journal


def _progress(snapshots: Snapshots, journal: Journal) -> dict[str, tuple[int, int]]:
    """How far keys have come, and since when: as of the snapshot, and moved since."""
    progress: dict[str, tuple[int, int]] = {}
    for body in snapshots.read_parts(PROGRESS):
        for key, offset, idle_since_ms in read_progress(body):
            progress[key] = (offset, idle_since_ms)
    for time_ms, record in journal.batches:
        for key, offset in record.signals:
            progress[key] = (offset, time_ms)
        for key in record.forgotten:
            del progress[key]
    return progress


def _parked(snapshots: Snapshots, journal: Journal) -> Iterator[Parked]:
    """What waits, in the order of submission."""
    ended = journal.ended
    number = snapshots.last.sequence if snapshots.last else 0
    for body in snapshots.read_parts(WAITING):
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
