"""The durable purgatory: the verbs, for threads. Each call answers when the disk has it."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, wait
from typing import Any, TypeVar

from sojourn.core.clock import ManualClock, SystemClock
from sojourn.core.millis import checked_count
from sojourn.durable.answers import Answer, JournalBatch, News, Operation
from sojourn.durable.checks import LONGEST_MS, checked_id, checked_name, checked_signal
from sojourn.durable.claim import claim
from sojourn.durable.machine import Machine
from sojourn.durable.payloads import Payload
from sojourn.durable.requests import Question, Request
from sojourn.durable.rows import Rows, only
from sojourn.durable.schema import Connect, connect
from sojourn.durable.shell import Shell
from sojourn.durable.store import Store
from sojourn.durable.submissions import checked_submission
from sojourn.durable.subscription import Subscription
from sojourn.durable.writer import Writer
from sojourn.errors import Closed, Forked, Missed

WEEK_MS = 7 * 86_400_000
_MOST = 2**62
_REQUESTS_AT_ONCE = 2  # of one caller's, on their way
_EXPIRE_AT_ONCE = 4_000  # operations, in one batch

T = TypeVar("T")


class Purgatory:
    """Operations that wait in a file, until enough of their requirements hold or time runs out.

    What a call has answered survives the process and the machine. `max_waiting` operations wait
    at most; beyond that a submission raises `Full`. Ended operations stay readable, and their ids
    remembered, for `retention_ms` after their end; a key that nobody waits for is forgotten with
    its progress when it had no news for `forget_keys_after_ms`, by default as long (None: never).

    On a `ManualClock` there is no thread: a call is carried out by its caller, and
    `clock.advance` by whoever calls that, at most one at a time. `wall_ms` tells the time of day
    at the start, by default the system's, or the ManualClock's. Every method: any thread.
    """

    path: str
    retention_ms: int

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        max_waiting: int | None = None,
        retention_ms: int = WEEK_MS,
        forget_keys_after_ms: int | None = -1,
        clock: SystemClock | ManualClock | None = None,
        wall_ms: Callable[[], int] | None = None,
        connect: Connect = connect,
    ) -> None:
        most = _MOST
        if max_waiting is not None:
            most = checked_count(max_waiting, "max_waiting", 1, _MOST, "None means no limit")
        self.retention_ms = checked_count(
            retention_ms, "retention_ms", 0, LONGEST_MS, "the default is 7 days"
        )
        if forget_keys_after_ms == -1:
            forget_keys_after_ms = self.retention_ms
        elif forget_keys_after_ms is not None:
            forget_keys_after_ms = checked_count(
                forget_keys_after_ms, "forget_keys_after_ms", 0, LONGEST_MS, "None means never"
            )
        clock = SystemClock() if clock is None else clock
        if wall_ms is None:
            wall_ms = _hand_ms(clock) if isinstance(clock, ManualClock) else _wall_ms
        self.path = os.fspath(path)
        self._pid = os.getpid()
        self._writer: Writer | None = None
        self._is_closed = False
        self._by_hand = threading.Lock()  # whose batch it is, on a ManualClock
        self._release = claim(self.path)
        try:
            self._store = Store(self.path, connect)
            try:
                machine = Machine(
                    max_waiting=most,
                    forget_keys_after_ms=forget_keys_after_ms,
                    # On a hand-moved clock nobody waits for a batch.
                    expire_at_once=_MOST if isinstance(clock, ManualClock) else _EXPIRE_AT_ONCE,
                )
                self._shell = Shell(self._store, machine, clock, wall_ms, self.retention_ms)
            except BaseException:
                self._store.close()
                raise
        except BaseException:
            self._release()
            raise
        if isinstance(clock, ManualClock):
            self._driver = clock.drive(self._shell)  # type: ignore[arg-type]
            while self._shell.due_ms() <= self._shell.now_ms():
                self._shell.step()
        else:
            self._writer = Writer(self._shell, f"{os.path.basename(self.path)}-writer")

    # Commands.

    def submit(
        self,
        id: str,
        requires: Iterable[tuple[str, int]],
        timeout_ms: int,
        needed: int | None = None,
        class_: str = "",
        payload: Payload = None,
        traceparent: str | None = None,
    ) -> Answer:
        """Let an operation wait until `needed` of `requires` hold, or for `timeout_ms`.

        The same id with the same content again changes nothing: the verdict is "duplicate", and
        the answer has the operation's state. With other content it raises `IdTaken`. The payload
        is bytes, or any JSON value. `traceparent` comes back with the outcome; it is not part of
        the content, and the first one stays.
        """
        submission = checked_submission(
            id, requires, timeout_ms, needed, class_, payload, traceparent
        )
        return only(self.carry_out(Request(submissions=[submission])).result())

    def signal(self, key: str, offset: int) -> Answer:
        """Move the key's progress up to the offset; a lesser one changes nothing."""
        return only(self.carry_out(Request(signals=[checked_signal(key, offset)])).result())

    def cancel(self, id: str) -> Answer:
        """End the operation as cancelled, unless it has ended."""
        return only(self.carry_out(Request(cancels=[checked_id(id)])).result())

    def submit_many(self, rows: Iterable[tuple[Any, ...]]) -> list[Answer]:
        """Do so for each row, the arguments of `submit` in their order; answer each for itself."""
        return self._send_all(Rows.of_submissions(rows))

    def signal_many(self, rows: Iterable[tuple[str, int]]) -> list[Answer]:
        """Do so for each (key, offset); answer each for itself."""
        return self._send_all(Rows.of_signals(rows))

    def cancel_many(self, ids: Iterable[str]) -> list[Answer]:
        """Do so for each id; answer each for itself."""
        return self._send_all(Rows.of_cancels(ids))

    def send(self, request: Request) -> asyncio.Future[list[Answer]]:
        """Put the request, which is checked, into the next batch; return a future of the answers.

        What asyncio and servers build on; called in an event loop, whose future it is.
        """
        waiter = request.waiter()
        self.carry_out(request)
        return waiter

    def carry_out(self, request: Request) -> Request:
        """Put the request, which is checked, into the next batch; its `result` has the answers."""
        if os.getpid() != self._pid:
            raise Forked(f"{self.path} was opened before this process was forked; open it here")
        self._shell.enqueue(request)
        if self._writer is not None:
            self._writer.wake()
        else:
            with self._by_hand:
                while not request.is_answered:
                    self._shell.step()
        return request

    def _send_all(self, rows: Rows) -> list[Answer]:
        """Send the requests, not too many at a time: others want to come in between."""
        in_flight: deque[Request] = deque()
        for request in rows.requests:
            if len(in_flight) == _REQUESTS_AT_ONCE:
                in_flight.popleft().wait()
            in_flight.append(self.carry_out(request))
        for request in in_flight:
            request.wait()
        return rows.answers()

    # Reading.

    def get(self, id: str) -> Operation | None:
        """The operation, waiting or ended; None if it is not known, or no longer."""
        return self._open_shell().get(checked_id(id))

    def progress(self, key: str) -> int | None:
        """How far the key has come; None if nothing is known of it."""
        return self._open_shell().machine.progress(checked_signal(key, 0)[0])

    def outcomes(self, after: int = 0, limit: int = 1000, wait_ms: int = 0) -> list[Operation]:
        """Return outcomes with numbers above `after`, in order, `limit` at most.

        If there are none yet, wait up to `wait_ms` for one. Raises `Missed` if retention has
        removed the one that follows `after`; 0 is before the oldest that is there.
        """
        shell = self._open_shell()
        after, limit = checked_after(after), checked_limit(limit)
        wait_ms = checked_count(wait_ms, "wait_ms", 0, LONGEST_MS, "0 means not to wait")
        until_s = time.monotonic() + wait_ms / 1000
        while True:
            last = shell.followers.last_outcome
            outcomes = self.read(after, last, limit)
            if outcomes:
                return outcomes
            left_s = until_s - time.monotonic()
            if left_s <= 0 or self._is_closed:
                return outcomes
            wait([shell.followers.follow(max(after, last))], min(left_s, threading.TIMEOUT_MAX))

    def read(self, after: int, until: int, limit: int) -> list[Operation]:
        """Return outcomes with numbers above `after` up to `until`, without waiting."""
        outcomes = self._store.outcomes(after, until, limit)
        first = outcomes[0].number if outcomes else until + 1
        if after and first is not None and first > after + 1:
            raise Missed(
                f"outcomes {after + 1} to {first - 1} of {self.path} were removed after "
                f"{self.retention_ms} ms; go on behind them, with after={first - 1}",
                first - 1,
            )
        return outcomes

    def follow(self, after: int) -> Future[None]:
        """Return a future that is done when there is an outcome with a number above `after`."""
        return self._open_shell().followers.follow(after)

    def subscription(self, name: str) -> Subscription:
        """The subscription of that name, at its position; a new one starts at the oldest."""
        self._open_shell()
        return Subscription(self, checked_name(name))

    def subscriptions(self) -> dict[str, int]:
        """The positions of all subscriptions that have committed one, by name."""
        return dict(self._open_shell().positions)

    @property
    def last_outcome(self) -> int:
        """The number of the last outcome; 0 if there is none."""
        return self._open_shell().followers.last_outcome

    @property
    def first_outcome(self) -> int:
        """The number of the oldest outcome that retention has left; 0 if there is none."""
        self._open_shell()
        return self._store.first_outcome()

    @property
    def file_bytes(self) -> int:
        """How large the file is, with its log."""
        self._open_shell()
        return self._store.file_bytes

    @property
    def write_error(self) -> Exception | None:
        """Why the last batch was not written; None once one has been."""
        return self._open_shell().write_error

    @property
    def now_ms(self) -> int:
        """The time that the next batch would get, or a little later."""
        shell = self._open_shell()
        return max(shell.now_ms(), shell.machine.time_ms)

    # Watching.

    def listen(self, listener: Callable[[News], object]) -> Callable[[], None]:
        """Call the listener after each batch with what it brought; return what ends that.

        It is called by the thread that writes, when the batch is on disk and before its commands
        are answered: be quick. What it raises is logged.
        """
        return self._open_shell().listen(listener)

    def inspect(self, question: Callable[[Machine], T]) -> Future[T]:
        """Ask the machine something between two batches, where it stands still.

        The thread that writes calls the question: everybody waits meanwhile, so be quick.
        """
        future: Future[T] = Future()
        shell = self._open_shell()
        shell.enqueue_question(Question(question, future))
        if self._writer is not None:
            self._writer.wake()
        else:
            with self._by_hand:
                shell.answer_questions()
        return future

    # The journal.

    def batches(self, after: int = 0, limit: int = 100) -> list[JournalBatch]:
        """Return batches of the journal with numbers above `after`, in order, `limit` at most.

        What was taken and what ended, batch by batch. Raises `Missed` if the one that follows
        `after` was removed, which `keep_journal` prevents; 0 is before the oldest that is there.
        """
        self._open_shell()
        after = checked_count(after, "after", 0, _MOST, "it is the number of a batch, 0 for all")
        last = self._store.last_batch
        batches = self._store.batches(after, last, checked_limit(limit))
        first = batches[0].batch if batches else last + 1
        if after and first > after + 1:
            raise Missed(
                f"batches {after + 1} to {first - 1} of {self.path} were removed; "
                "name a position with keep_journal before it is too late",
                first - 1,
            )
        return batches

    def keep_journal(self, name: str, batch: int | None) -> None:
        """Keep all batches above `batch`, and their outcomes, for the reader of this name.

        The position is kept in the file; None removes it. While a reader does not move on, the
        file grows.
        """
        if batch is not None:
            batch = checked_count(
                batch, "batch", 0, self._store.last_batch, "it is the number of a batch"
            )
        self.carry_out(Request(keeper=(checked_name(name), batch))).result()

    def journal_readers(self) -> dict[str, int]:
        """The positions of `keep_journal`, by name."""
        self._open_shell()
        return self._store.keepers

    @property
    def is_by_hand(self) -> bool:
        """Whether it is on a `ManualClock`: no thread, and callers carry out what they ask for."""
        return self._writer is None

    @property
    def last_batch(self) -> int:
        """The number of the last batch; 0 if there is none."""
        self._open_shell()
        return self._store.last_batch

    def __len__(self) -> int:
        """How many operations wait."""
        return len(self._shell)

    def close(self) -> None:
        """Write what is queued, and release the file. What waits goes on waiting in it."""
        if self._is_closed or os.getpid() != self._pid:
            return
        self._is_closed = True
        if self._writer is not None:
            self._writer.stop()
        self._shell.close()
        self._release()

    def __enter__(self) -> Purgatory:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._is_closed else f"waiting={len(self)}"
        return f"<durable.Purgatory {self.path!r} {state}>"

    def _open_shell(self) -> Shell:
        if self._is_closed:
            raise Closed(f"{self.path} was closed")
        return self._shell


def checked_after(after: Any) -> int:
    return checked_count(after, "after", 0, _MOST, "it is the number of an outcome, 0 for all")


def checked_limit(limit: Any) -> int:
    return checked_count(limit, "limit", 1, _MOST, "the default is 1000")


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000


def _hand_ms(clock: ManualClock) -> Callable[[], int]:
    return lambda: clock.now_ms
