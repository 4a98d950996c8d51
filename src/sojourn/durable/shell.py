"""The shell around the machine: commands come in from any thread, and batches go to disk.

    submit, signal, cancel            queue          turn: one batch, one transaction
    thread 1  ------------------->  [ . . . ]  --->  1. find which of the ids have ended
    thread 2  ------------------->  [ . . . ]        2. machine.plan
    a task    ------------------->  [ . . . ]        3. store.write             on disk
                                                     4. machine.apply
                                                     5. readers are woken, listeners called
                                                     6. answers

Whoever comes while a turn is under way shares the next one. If 3 fails, every command of the
batch is answered with that error; the machine has not changed, and the next batch tries again.

Time is counted from the wall clock at the start, or from the last time on disk if that is later,
and goes on with the monotonic clock. A batch's time is later than the one before.

`Shell` has no thread. On the system clock a `Writer` turns it, on a `ManualClock` whoever calls.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

from sojourn._log import log
from sojourn.core.clock import Driven
from sojourn.durable.answers import Answer, News, Operation
from sojourn.durable.followers import Followers
from sojourn.durable.machine import Machine
from sojourn.durable.plan import Batch, Plan
from sojourn.durable.positions import Positions
from sojourn.durable.requests import Question, Request, set_future, wake_loops
from sojourn.durable.store import Store
from sojourn.errors import Closed, NotWritten, SojournError

NOTHING_MS = 2**62  # when nothing is to be done

_BATCH_MOST = 5_000  # commands, after which a batch takes no more requests
_TRY_AGAIN_MS = 1_000  # after a write of expiries, for which nobody waits, failed


class Ticks(Protocol):
    """What the shell asks of a clock."""

    def now_ns(self) -> int: ...


Listener = Callable[[News], object]


class Shell(Driven):
    """Queue, machine and store. `enqueue` and the reading methods: any thread."""

    def __init__(
        self,
        store: Store,
        machine: Machine,
        clock: Ticks,
        wall_ms: Callable[[], int],
        retention_ms: int,
    ) -> None:
        self.store = store
        self.machine = machine
        self._clock = clock
        self._retention_ms = retention_ms
        self._queue: deque[Request] = deque()
        self._gate = threading.Lock()  # nothing comes in once it is closed
        self._closed: SojournError | None = None
        self._retry_ms = 0
        self.write_error: Exception | None = None  # of the last batch, if it was not written
        self._questions: deque[Question] = deque()
        self._listeners: tuple[Listener, ...] = ()  # replaced, never changed
        store.load(machine)
        self.positions = store.subscriptions()
        self.followers = Followers(machine.outcome)
        self._anchor_ns = clock.now_ns()
        self._start_ms = max(wall_ms(), machine.time_ms)

    # The time.

    def now_ms(self) -> int:
        """The time, as outcomes tell it."""
        return self.now_ns() // 1_000_000

    def now_ns(self) -> int:
        """The same, finer."""
        return self._start_ms * 1_000_000 + self._clock.now_ns() - self._anchor_ns

    def to_clock_ms(self, time_ms: int) -> int:
        """When the clock shows that time."""
        return time_ms - self._start_ms + -(-self._anchor_ns // 1_000_000)

    def due_ms(self) -> int:
        """When there is something to do though nobody asks."""
        if self._closed is not None:
            return NOTHING_MS
        if self.store.has_more_to_write:
            return max(self.machine.time_ms + 1, self._retry_ms)
        next_ms = self.machine.next_ms
        return NOTHING_MS if next_ms is None else max(next_ms, self._retry_ms)

    # Coming in.

    def enqueue(self, request: Request) -> None:
        """Take the request for the next batch."""
        with self._gate:
            if self._closed is not None:
                raise self._closed
            self._queue.append(request)

    def has_requests(self) -> bool:
        """Whether anybody waits for a batch."""
        return bool(self._queue)

    def enqueue_question(self, question: Question) -> None:
        """Take the question, to be asked between batches."""
        with self._gate:
            if self._closed is not None:
                raise self._closed
            self._questions.append(question)

    def has_questions(self) -> bool:
        """Whether anybody has asked."""
        return bool(self._questions)

    def answer_questions(self) -> None:
        """Ask the machine what was to be asked."""
        while self._questions:
            question = self._questions.popleft()
            if question.future.set_running_or_notify_cancel():
                try:
                    question.future.set_result(question.ask(self.machine))
                except BaseException as error:
                    question.future.set_exception(error)

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call the listener with the news of every batch; return what ends that."""
        with self._gate:
            self._listeners = (*self._listeners, listener)

        def remove() -> None:
            with self._gate:
                listeners = list(self._listeners)
                if listener in listeners:
                    listeners.remove(listener)
                self._listeners = tuple(listeners)

        return remove

    # One batch.

    def step(self) -> None:
        """Make one batch of what is queued, and put it on disk; or time alone has passed."""
        requests, batch, positions = self._gather()
        time_ms = max(self.now_ms(), self.machine.time_ms + 1)
        try:
            plan = self.machine.plan(time_ms, batch, self._find_ended(batch))
            began_ns = time.perf_counter_ns()
            if len(plan) or positions or self.store.has_more_to_write:
                self.store.write(plan, self.machine, positions, time_ms - self._retention_ms)
            commit_ms = (time.perf_counter_ns() - began_ns) / 1e6
        except Exception as error:
            self._refuse(requests, time_ms, error)
            return
        except BaseException as error:  # an interrupt: whether it is on disk nobody knows
            self._fail(requests, error)
            raise
        try:
            if len(plan):
                self.machine.apply(plan)
        except BaseException as error:
            self._fail(requests, error)
            raise
        self._retry_ms = 0
        self.write_error = None
        if positions.subscriptions:
            moved = {**self.positions, **positions.subscriptions}
            self.positions = {name: at for name, at in moved.items() if at is not None}
        if plan.outcomes:
            self.followers.move_to(self.machine.outcome)
        if self._listeners and (len(plan) or len(batch)):
            self._call_listeners(plan, len(batch), commit_ms)
        self._answer(requests, batch)

    def _gather(self) -> tuple[list[Request], Batch, Positions]:
        requests = []
        batch = Batch()
        positions = Positions({}, {})
        count = 0
        while self._queue and count < _BATCH_MOST:
            request = self._queue.popleft()
            requests.append(request)
            count += 1
            if request.submissions:
                batch.submissions += request.submissions
                count += len(request.submissions)
            if request.signals:
                batch.signals += request.signals
                count += len(request.signals)
            if request.cancels:
                batch.cancels += request.cancels
                count += len(request.cancels)
            if request.position is not None:
                positions.subscriptions[request.position[0]] = request.position[1]
            if request.keeper is not None:
                positions.keepers[request.keeper[0]] = request.keeper[1]
        return requests, batch, positions

    def _call_listeners(self, plan: Plan, commands: int, commit_ms: float) -> None:
        record = plan.record
        news = News(
            plan.time_ms,
            commands,
            len(record.signals),
            len(record.submissions),
            plan.outcomes,
            commit_ms,
        )
        for listener in self._listeners:
            try:
                listener(news)
            except Exception:
                log.exception("%s: a listener failed: %r", self.store.path, listener)

    def _find_ended(self, batch: Batch) -> dict[str, Operation]:
        ids = self.machine.others(batch)
        return self.store.find_for_batch(ids) if ids else {}

    def _refuse(self, requests: list[Request], time_ms: int, error: Exception) -> None:
        """Nothing was written: say so to everybody in the batch."""
        self._retry_ms = time_ms + _TRY_AGAIN_MS
        self.write_error = error
        log.error("%s: a batch of %d was not written: %s", self.store.path, len(requests), error)
        for request in requests:
            refusal = NotWritten(
                f"{self.store.path} did not take the command: {error}; "
                "it was not acknowledged; try again, the same id is safe"
            )
            refusal.__cause__ = error
            request.answer(None, refusal)
        wake_loops(requests)

    def _fail(self, requests: list[Request], error: BaseException) -> None:
        """The machine may not be what the file says: go no further."""
        log.critical("%s: a batch may be on disk only", self.store.path, exc_info=error)
        failure = Closed(f"{self.store.path} has to be opened again: {error!r}")
        with self._gate:
            self._closed = failure
            requests += self._queue
            self._queue.clear()
        for request in requests:
            request.answer(None, failure)
        wake_loops(requests)
        self.followers.close()
        self._refuse_questions(failure)

    def _answer(self, requests: list[Request], batch: Batch) -> None:
        if len(requests) == 1 and not (batch.signals or batch.cancels):
            requests[0].answer(batch.submission_answers, None)
            wake_loops(requests)
            return
        signal = submission = cancel = 0
        for request in requests:
            answers: list[Answer] = []
            if request.signals:
                answers += batch.signal_answers[signal : signal + len(request.signals)]
                signal += len(request.signals)
            if request.submissions:
                end = submission + len(request.submissions)
                answers += batch.submission_answers[submission:end]
                submission = end
            if request.cancels:
                answers += batch.cancel_answers[cancel : cancel + len(request.cancels)]
                cancel += len(request.cancels)
            request.answer(answers, None)
        wake_loops(requests)

    def get(self, id: str) -> Operation | None:
        """The operation, waiting or ended; None if it is not known."""
        operation = self.machine.get(id)
        if operation is None:
            operation = self.store.find([id]).get(id)
        return operation

    def close(self) -> None:
        """Take no more, write what is queued, and wake who follows."""
        with self._gate:
            if self._closed is None:
                self._closed = Closed(f"{self.store.path} was closed")
        while self._queue:
            self.step()
        self.followers.close()
        self._refuse_questions(self._closed)
        self.store.close()

    def _refuse_questions(self, error: SojournError) -> None:
        while self._questions:
            set_future(self._questions.popleft().future, None, error)

    # For a ManualClock, which drives it.

    def _sj_next_ms(self) -> int:
        due_ms = self.due_ms()
        return due_ms if due_ms == NOTHING_MS else self.to_clock_ms(due_ms)

    def _sj_turn(self) -> int:
        self.step()
        return 1

    def __len__(self) -> int:
        return len(self.machine)
