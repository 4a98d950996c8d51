"""The recorder: reads the journal of a durable purgatory, and writes it as Parquet by hour.

    journal, on disk          recorder                               folder
    batches 1 2 3 4 5 6 7     1. rows of batches 4 to 7  ------->    parts, renamed into place
            ^                 2. the hour: "batches up to 7" --->    what counts
            position: 3       3. position: 7

The journal keeps every batch beyond the position (`keep_journal`), so nothing is lost however the
process ends:

    killed before 2     the rows of 4 to 7 do not count; they are read and written again
    killed before 3     the folder knows that it has 7, and the position follows at the next start

What is recorded is what was put on disk, in the order it was: never what only memory has seen.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from sojourn._log import log
from sojourn.core.millis import checked_count
from sojourn.durable import JournalBatch
from sojourn.durable.claim import claim
from sojourn.errors import BadFile, Closed, Missed, OutOfRange
from sojourn.history.chapter import Chapter, PartLimits
from sojourn.history.folder import Folder
from sojourn.history.hours import hour_of
from sojourn.history.tables import RowBuffer

_ROWS_AT_ONCE = 2_000  # from the journal, about: others who read the file wait meanwhile
_BATCHES_AT_ONCE = 100

_EVERY_MS = 60_000
_POSITION = "history-"  # and the history's identity: whose position it is in the journal


class Source(Protocol):
    """What the recorder asks of a durable purgatory."""

    path: str

    def batches(self, after: int, limit: int) -> Sequence[JournalBatch]: ...
    def keep_journal(self, name: str, batch: int | None) -> None: ...
    def journal_readers(self) -> dict[str, int]: ...
    def listen(self, listener: Callable[[Any], None]) -> Callable[[], None]: ...
    @property
    def is_by_hand(self) -> bool: ...


class Recorder:
    """Writes what a durable purgatory takes and tells into a folder, as Parquet by hour.

    `start` begins where the folder ends, or at the oldest batch that the journal still has. From
    then on a thread follows, at most `every_ms` behind; on a `ManualClock` there is no thread, and
    `flush` is for the caller. A part that has `part_rows` rows is followed by the next one.

    If the folder cannot be written, that is logged and tried again; meanwhile the journal grows.
    Every method: any thread. Close it before the purgatory.
    """

    error: Exception | None  #: why the last attempt failed; None if it did not

    def __init__(
        self,
        purgatory: Source,
        folder: str | os.PathLike[str],
        *,
        every_ms: int = _EVERY_MS,
        part_rows: int = PartLimits.rows,
    ) -> None:
        self._purgatory = purgatory
        self._folder = Folder(folder)
        every_ms = checked_count(every_ms, "every_ms", 1, 3_600_000, "the default is a minute")
        self._every_s = every_ms / 1000
        rows = checked_count(part_rows, "part_rows", 1, 2**31, "the default is 250,000")
        self._limits = PartLimits(rows)
        self._writing = threading.Lock()  # guards the next three
        self._chapter: Chapter | None = None  # None: to be read from the folder again
        self._position = 0
        self._is_current = False  # whether these two are what the folder has
        self._bell = threading.Condition()  # guards the next two
        self._unwritten = 0  # rows, since the last flush
        self._is_stopping = False
        self._thread: threading.Thread | None = None
        self._name = ""
        self._release: Callable[[], None] | None = None
        self._ignore: Callable[[], None] | None = None
        self.error = None

    @property
    def folder(self) -> str:
        """Where it writes."""
        return str(self._folder.path)

    @property
    def position(self) -> int:
        """The last batch that is recorded, on disk."""
        return self._position

    def start(self) -> None:
        """Take the folder, and record from now on."""
        if self._release is not None:
            raise OutOfRange(f"the recorder of {self.folder} was started already")
        identity = self._folder.create()
        self._release = claim(str(self._folder.path / "_history"))
        try:
            with self._writing:
                self._open(identity)
        except BaseException:
            self._release()
            self._release = None
            raise
        self._ignore = self._purgatory.listen(self._on_news)
        if not self._purgatory.is_by_hand:
            name = f"{self._folder.path.name}-recorder"
            self._thread = threading.Thread(target=self._run, name=name, daemon=True)
            self._thread.start()

    def flush(self) -> int:
        """Record everything that is in the journal by now; return how many batches."""
        with self._writing:
            if self._release is None:
                raise Closed(f"the recorder of {self.folder} is not running")
            try:
                flushed = self._flush()
            except Exception as error:
                self.error = error
                self._is_current = False  # memory may be ahead of the folder
                raise
            self.error = None
            return flushed

    def close(self) -> None:
        """Record what is left, and release the folder."""
        if self._release is None:
            return
        if self._ignore is not None:
            self._ignore()
        if self._thread is not None:
            with self._bell:
                self._is_stopping = True
                self._bell.notify()
            self._thread.join()
        try:
            self.flush()
        except Exception as error:  # the journal has it; the next start goes on from there
            log.error("%s: the history is behind: %s", self.folder, error)
        self._release()
        self._release = None

    def __enter__(self) -> Recorder:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Recorder {self.folder!r} position={self._position}>"

    # The thread.

    def _on_news(self, news: Any) -> None:
        """A batch is on disk. On the writer's thread, so quickly."""
        rows = news.signals + news.submissions + len(news.outcomes)
        with self._bell:
            before = self._unwritten
            self._unwritten += rows
            if (rows and not before) or before < self._limits.rows <= self._unwritten:
                self._bell.notify()

    def _run(self) -> None:
        while True:
            with self._bell:
                self._bell.wait_for(lambda: self._unwritten or self._is_stopping)
                self._bell.wait_for(
                    lambda: (
                        self._is_stopping
                        or (self.error is None and self._unwritten >= self._limits.rows)
                    ),
                    self._every_s,
                )
                if self._is_stopping:
                    return
                self._unwritten = 0
            try:
                self.flush()
            except Exception as error:
                log.error("%s: the history is behind, and is tried again: %s", self.folder, error)
                with self._bell:
                    self._unwritten = max(self._unwritten, 1)

    # From the journal to the folder.

    def _open(self, identity: str) -> None:
        """Find where to go on, and hold the journal from there."""
        self._name = position_name(identity)
        positions = self._purgatory.journal_readers()
        last = self._folder.last_hour()
        position = positions.get(self._name)
        if last is not None and (position is None or position > last.last_batch):
            raise BadFile(
                f"{self.folder} holds a history that {self._purgatory.path} does not continue "
                f"(it ends with batch {last.last_batch}, the file's position is {position}): one "
                "of the two is another one, or an old copy; give an empty folder"
            )
        for other in positions:
            if other.startswith(_POSITION) and other != self._name:
                log.warning("%s: its history goes to %s from now on", self._purgatory.path, self)
                self._purgatory.keep_journal(other, None)
        removed = self._folder.remove_leftovers()
        if removed:
            log.info("%s: %d unfinished files were removed", self.folder, removed)
        if position is None:
            self._purgatory.keep_journal(self._name, 0)
            self._purgatory.keep_journal(self._name, self._find_beginning())
        self._reload()
        if position is not None and last is not None and position < last.last_batch:
            self._check_overlap(last.last_batch, last.last_ms)
            self._purgatory.keep_journal(self._name, self._position)

    def _find_beginning(self) -> int:
        """The batch after which the journal is whole, with all outcomes."""
        beginning = position = 0
        while True:
            try:
                batches = self._purgatory.batches(position, 1_000)
            except Missed as missed:
                beginning = position = missed.last
                continue
            if not batches:
                return beginning
            position = batches[-1].batch

    def _check_overlap(self, last_batch: int, last_ms: int) -> None:
        """See that the journal's batch is the one that the folder ends with."""
        batches = self._purgatory.batches(last_batch - 1, 1)
        if not batches or (batches[0].batch, batches[0].time_ms) != (last_batch, last_ms):
            raise BadFile(
                f"{self.folder} holds a history with other batches than {self._purgatory.path}, "
                "which is an old copy or another file; give an empty folder"
            )

    def _reload(self) -> None:
        """Go on from what counts in the folder."""
        last = self._folder.last_hour()
        if last is not None:
            self._chapter = Chapter.resume(self._folder, last, self._limits)
            self._position = last.last_batch
        else:
            self._chapter = None
            self._position = self._purgatory.journal_readers()[self._name]
        self._is_current = True

    def _flush(self) -> int:
        if not self._is_current:
            self._folder.remove_leftovers()
            self._reload()
        began = position = self._position
        rows = RowBuffer()
        limit = 64
        time_ms = outcome = 0
        if self._chapter is not None:
            time_ms, outcome = self._chapter.hour.last_ms, self._chapter.hour.last_outcome
        while batches := self._purgatory.batches(position, limit):
            before = len(rows)
            for batch in batches:
                self._check_follows(batch, position)
                hour = hour_of(batch.time_ms)
                if self._chapter is None or self._chapter.hour.name != hour:
                    if self._chapter is not None and position > self._position:
                        self._write(rows, position, time_ms, outcome)
                        rows = RowBuffer()
                    self._chapter = Chapter.begin(
                        self._folder, hour, batch.batch, batch.time_ms, self._limits
                    )
                rows.add(batch)
                position, time_ms = batch.batch, batch.time_ms
                if batch.outcomes:
                    outcome = batch.outcomes[-1].number or 0
                if len(rows) >= self._limits.rows or rows.payload_bytes >= self._limits.bytes:
                    self._write(rows, position, time_ms, outcome)
                    rows = RowBuffer()
            each = max(1, (len(rows) - before) // len(batches)) if len(rows) > before else 64
            limit = max(1, min(_ROWS_AT_ONCE // each, _BATCHES_AT_ONCE))
        if position > self._position:
            self._write(rows, position, time_ms, outcome)
        return position - began

    def _check_follows(self, batch: JournalBatch, position: int) -> None:
        if batch.batch != position + 1 and self._chapter is not None:
            raise BadFile(
                f"{self._purgatory.path}: batches {position + 1} to {batch.batch - 1} are not in "
                f"the journal any more, and not in {self.folder}; give an empty folder"
            )

    def _write(self, rows: RowBuffer, position: int, time_ms: int, outcome: int) -> None:
        assert self._chapter is not None
        self._chapter.write(rows, position, time_ms, outcome)
        self._position = position
        self._purgatory.keep_journal(self._name, position)


def position_name(identity: str) -> str:
    """The name under which a data file keeps the position of that history."""
    return f"{_POSITION}{identity}"
