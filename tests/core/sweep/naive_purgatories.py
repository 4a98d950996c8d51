"""The naive purgatory, with a gap wherever the real one is between two atomic steps."""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from typing import Any, NoReturn

from sojourn.errors import AlreadyWaiting, Closed
from tests.core.models.naive_timer import next_stop_ms
from tests.core.naive_purgatory import NaiveRun, Program, Record, Run
from tests.core.sweep.cases import Action, Seen, Step, World


class WatchedRun(World, Run):
    """A run of a purgatory, real or naive, and what is seen of it at the end."""

    def _begin(self) -> None:
        World.__init__(self)
        self.callbacks: list[tuple[int, int, str]] = []
        self._progress: dict[str, int] = defaultdict(int)
        self._claims: int | None = 0

    def _claim(self, completed: Any) -> None:
        if self._claims is not None:
            self._claims += int(completed)

    def _forget_claims(self) -> None:
        # Forced from inside its own try, by whomever: the try has completed it, and so has the
        # one who forced it.
        self._claims = None

    # User code that makes as few objects as it can: each is one more place for a collection.

    def holds(self, number: int) -> bool:
        spec = self.program.specs[number]
        there = 0
        for key in spec.keys:
            if self._progress[key] >= spec.offset:
                there += 1
        return there >= spec.needed

    def completed(self, number: int) -> None:
        self._called(number, "on_complete")

    def expired(self, number: int) -> None:
        self._called(number, "on_expiration")

    def _called(self, number: int, what: str) -> None:
        now_ms = self.now_ms()
        self.gap()
        self.callbacks.append((now_ms, number, what))

    def quiet(self, key: str) -> Action:
        def quiet() -> None:
            self._progress[key] += 1

        return Action(quiet)

    def seen(self) -> Seen:
        return (
            self.counts(),
            self.totals(),
            self._claims,
            self.now_ms(),
            tuple(self.callbacks),
            tuple(self.outcome(number) for number in range(len(self.program.specs))),
        )


class NaivePurgatories(WatchedRun, NaiveRun):
    """Operations by number, in one list.

    An operation that is being tried in the call that has the gap cannot be tried in the gap: the
    news is kept for that call. Another thread can also not try while the call has its lock.
    """

    def __init__(self, program: Program) -> None:
        NaiveRun.__init__(self, program)
        self._begin()
        self._closed = False
        self._stay = [0] * len(program.specs)
        self._tried: set[int] = set()
        self._locked: set[int] = set()
        self._again: set[int] = set()

    def action(self, step: Step) -> Action:
        return World.action(self, step)

    def submit(self, number: int) -> Action:
        with_future = self._records[number].spec.with_future
        do = partial(self._submit, number)
        return Action(do, lambda _: None) if with_future else Action(do, self._claim)

    def _submit(self, number: int) -> bool:
        record = self._records[number]
        if not self._take(record):
            return False
        self._stay[number] += 1
        stay = self._stay[number]
        completed = self._try_and_watch(record, stay)
        if self._stays(record, stay):
            self._arm(record, stay)
        return completed

    def _take(self, record: Record) -> bool:
        """Say whether it may wait from now on; raise if it never may."""
        self.gap()
        if self._closed:
            raise Closed
        if record.state in ("completed", "expired"):
            if record.spec.with_future:
                raise AlreadyWaiting
            return False
        if record.kept and record.state == "pending":
            raise AlreadyWaiting
        record.state = "pending"
        record.kept = True
        if record.spec.with_future:
            record.future = "pending"
        return True

    def _stays(self, record: Record, stay: int) -> bool:
        self.gap()
        return record.state == "pending" and self._stay[record.number] == stay

    def _try_and_watch(self, record: Record, stay: int) -> bool:
        self.gap()
        self._locked.add(record.number)
        completed = self._attempt(record)
        if not completed and self._stays(record, stay):
            record.watched = True
            self._waiting.append(record)
            self.gap()
            completed = self._attempt(record)
        self.gap()
        self._locked.discard(record.number)
        return self._attempt_again(record) or completed

    def _arm(self, record: Record, stay: int) -> None:
        if self._closed:
            self._cancel(record.number)
            self._refuse(record)
        record.delayed = True
        stays = self._stays(record, stay)
        if self._closed:  # and with it the timer
            self._refuse(record)
        if not stays:
            return
        if record.spec.timeout_ms > 0:
            record.deadline_ms = self.deadline_ms(record.spec.timeout_ms)
        else:
            self._due.append(record)
            self.gap()
            if not self._running:
                self._run_due()

    def _refuse(self, record: Record) -> NoReturn:
        record.future = "no future"  # it was cancelled, and never handed out
        raise Closed

    def signal(self, key: str) -> Action:
        return Action(partial(self._signal, key), self._claim)

    def news(self, key: str) -> Action:
        def news() -> int:
            self._progress[key] += 1
            return self._signal(key)

        return Action(news, self._claim)

    def _signal(self, key: str) -> int:
        completed = 0
        for record in self._on(key):
            self.gap()
            if record.kept:
                self._again.add(record.number)
                completed += self._attempt_again(record)
        return completed

    def cancel_key(self, key: str) -> Action:
        return Action(partial(self._cancel_key, key))

    def _cancel_key(self, key: str) -> list[int]:
        cancelled = []
        for record in self._on(key):
            self.gap()
            if self._cancel(record.number):
                cancelled.append(record.number)
        return cancelled

    def _on(self, key: str) -> list[Record]:
        """Who waits on the key, in the order in which they are told of news."""
        return [record for record in self._waiting if key in record.spec.keys]

    def _everybody(self) -> list[Record]:
        return list(self._waiting)

    def cancel(self, number: int) -> Action:
        return Action(partial(self._cancel, number))

    def _cancel(self, number: int) -> bool:
        if self._records[number].state == "pending" and self._records[number].kept:
            self._stay[number] += 1
        return bool(NaiveRun.cancel(self, number))

    def force(self, number: int) -> Action:
        self._forget_claims()
        return Action(lambda: self._end(self._records[number], "completed"))

    def safe_try(self, number: int) -> Action:
        return Action(partial(self._safe_try, number, None), self._claim)

    def safe_try_or_else(self, number: int, key: str) -> Action:
        return Action(partial(self._safe_try, number, key), self._claim)

    def _safe_try(self, number: int, key: str | None) -> bool:
        record = self._records[number]
        self._locked.add(number)
        completed = self._attempt(record)
        if not completed and key is not None:
            self._progress[key] += 1
            self.gap()
            completed = self._attempt(record)
        self._locked.discard(number)
        self.gap()
        return self._attempt_again(record) or completed

    def advance(self, ms: int) -> Action:
        return Action(partial(self._advance, ms))

    def _advance(self, ms: int) -> None:
        target_ms = self._now_ms + ms
        while True:
            self.gap()
            deadlines_ms = [r.deadline_ms for r in self._waiting if r.deadline_ms is not None]
            stop_ms = next_stop_ms(self._now_ms, target_ms, deadlines_ms, wheel_size=20)
            if stop_ms is None:
                break
            self.gap()
            self._now_ms = max(self._now_ms, stop_ms)
            self.gap()
            for _, record in sorted(
                (r.deadline_ms, r)
                for r in self._waiting
                if r.deadline_ms is not None and r.deadline_ms <= self._now_ms
            ):
                record.deadline_ms = None
                self._due.append(record)
            self._run_due()
        self._now_ms = max(self._now_ms, target_ms)

    def metrics(self) -> Action:
        return Action(int, lambda _: None)

    def close_purgatory(self) -> Action:
        return Action(self._close)

    def _close(self) -> int:
        self._closed = True
        dropped = 0
        for record in self._everybody():
            self.gap()
            dropped += self._cancel(record.number)
        self.gap()
        self._run_due()
        return dropped

    def _attempt(self, record: Record) -> bool:
        number = record.number
        if record.state != "pending":
            return False
        self._tried.add(number)
        self.gap()
        holds = self.holds(number)
        self.gap()
        completed = False
        if record.state == "pending" and holds:
            if record.spec.raises == "try_complete":
                self._fail(record)
            completed = self._end(record, "completed")
        self._tried.discard(number)
        return completed

    def _attempt_again(self, record: Record) -> bool:
        number = record.number
        completed = False
        while number in self._again:
            if number in self._tried or (number in self._locked and self.intruded_from_a_thread):
                break
            self._again.discard(number)
            locked = number in self._locked
            self._locked.add(number)
            completed = self._attempt(record) or completed
            if not locked:
                self._locked.discard(number)
            self.gap()
        return completed

    def _end(self, record: Record, state: str) -> bool:
        again = record.state == "cancelled" and state == "completed"
        if record.state != "pending" and not again:
            return False
        record.state = state
        record.deadline_ms = None
        if record in self._due:
            self._due.remove(record)
        self.gap()
        kept = record.kept
        self._leave(record)
        if kept:
            self._totals[state] += 1
        self.gap()
        self.completed(record.number)
        if record.spec.raises == "on_complete":
            self._fail(record)
        self.gap()
        if state == "expired":
            self.expired(record.number)
            self.gap()
        if record.future == "pending":
            record.future = "error" if record.failed else str(state == "completed")
        return True

    def _run_due(self) -> None:
        before, self._running = self._running, True
        while self._due:
            self.gap()
            if self._due:
                record = self._due.popleft()
                self.gap()
                self._end(record, "expired")
        self._running = before
