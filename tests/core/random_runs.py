"""Runs of random programs, on the real purgatory and on a naive one: each run writes a log.

A program is data: operations, and steps that submit them, bring news, cancel, complete by force
and move the clock. Every callback, answer and count has its line in the log, so two runs agree if
their logs do.

In one tick the real wheel's order is fixed but not told, so a program is of one of three kinds:

- SHARED: deadlines may coincide; callbacks do nothing further; expiries are sorted in the log.
- UNIQUE: no two deadlines coincide; callbacks submit, signal, cancel, complete and close.
- FREE: both at once, to compare the two builds with each other and not with a model.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from sojourn import DelayedOperation, ManualClock, Purgatory
from tests.checkout import ROOT

SHARED, UNIQUE, FREE = "shared", "unique", "free"
STEPS = 250  # of a program, unless it is a small one

Step = tuple[str, Any]


class Spec(Protocol):
    """One operation of a program."""

    @property
    def timeout_ms(self) -> int: ...
    @property
    def raises(self) -> str: ...  # the callback that does, or nothing
    @property
    def with_future(self) -> bool: ...
    @property
    def reactions(self) -> tuple[Step, ...]: ...


class Program(Protocol):
    """Operations and what happens to them."""

    @property
    def kind(self) -> str: ...
    @property
    def tick_ms(self) -> int: ...
    @property
    def specs(self) -> Sequence[Spec]: ...
    @property
    def steps(self) -> tuple[Step, ...]: ...


class Run:
    """One run of a program, and the log it writes. What a step does, subclasses say."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self.log: list[str] = []
        self._taken_ms: set[int] = set()  # deadlines, so that UNIQUE ones stay so

    def whole(self) -> list[str]:
        """Perform every step; return the log."""
        for step in self._program.steps:
            begin = len(self.log)
            self.perform(step)
            if step[0] == "advance" and self._program.kind == SHARED:
                self.log[begin:-1] = sorted(self.log[begin:-1])
            self.log.append(f"= {self.counts()} {self.totals()}")
        self.log.extend(self.outcome(number) for number in range(len(self._program.specs)))
        return self.log

    def completed(self, number: int) -> None:
        """The operation's on_complete."""
        self.called(number, "on_complete")
        for step in self._program.specs[number].reactions:
            self.perform(step)

    def expired(self, number: int) -> None:
        """The operation's on_expiration."""
        self.called(number, "on_expiration")

    def called(self, number: int, what: str) -> None:
        counts = "" if self._program.kind == SHARED else f" {self.counts()}"
        self.log.append(f"{self.now_ms():9} {number:4} {what}{counts}")

    def may_submit(self, number: int) -> bool:
        timeout_ms = self._program.specs[number].timeout_ms
        if self._program.kind != UNIQUE or timeout_ms <= 0:
            return True
        deadline_ms = self.deadline_ms(timeout_ms)
        if deadline_ms in self._taken_ms:
            return False
        self._taken_ms.add(deadline_ms)
        return True

    def deadline_ms(self, timeout_ms: int) -> int:
        tick_ms = self._program.tick_ms
        return -(-(self.now_ms() + timeout_ms) // tick_ms) * tick_ms

    def perform(self, step: Step) -> None:
        raise NotImplementedError

    # What the naive and the real one do each in their own way; some names are those of steps.

    def submit(self, number: int) -> object:
        raise NotImplementedError

    def cancel(self, number: int) -> object:
        raise NotImplementedError

    def force(self, number: int) -> object:
        raise NotImplementedError

    def cancel_key(self, key: Any) -> object:
        raise NotImplementedError

    def advance(self, ms: int) -> object:
        raise NotImplementedError

    def now_ms(self) -> int:
        raise NotImplementedError

    def counts(self) -> tuple[int, ...]:
        """Watched, delayed, waiting on the timer."""
        raise NotImplementedError

    def totals(self) -> tuple[int, ...]:
        """Completed, expired, cancelled, errors."""
        raise NotImplementedError

    def outcome(self, number: int) -> str:
        raise NotImplementedError


# The naive one.


@dataclass(eq=False)
class Record:
    """One operation, as a naive purgatory keeps it."""

    number: int
    spec: Any
    state: str = "pending"
    kept: bool = False  # it was submitted and not cancelled since
    deadline_ms: int | None = None  # while it waits on the timer
    failed: bool = False
    future: str = "no future"


AnyRecord = TypeVar("AnyRecord", bound=Record)


class NaiveRun(Run, Generic[AnyRecord]):
    """One list of all that waits, in the order it came. How it is waited for, subclasses say."""

    def __init__(self, program: Program, kind: Callable[[int, Any], AnyRecord]) -> None:
        super().__init__(program)
        self._records = [kind(number, spec) for number, spec in enumerate(program.specs)]
        self._waiting: list[AnyRecord] = []
        self._due: deque[AnyRecord] = deque()
        self._running = False
        self._totals = dict.fromkeys(("completed", "expired", "cancelled", "errors"), 0)
        self._now_ms = 0

    def now_ms(self) -> int:
        return self._now_ms

    def cancel(self, number: int) -> object:
        record = self._records[number]
        if record.state != "pending" or not record.kept:
            return False
        record.state = "cancelled"
        record.kept = False
        self._leave(record)
        self._totals["cancelled"] += 1
        if record.future == "pending":
            record.future = "cancelled"
        return True

    def force(self, number: int) -> object:
        return self._end(self._records[number], "completed")

    def advance(self, ms: int) -> object:
        target_ms = self._now_ms + ms
        while due := [
            record
            for record in self._waiting
            if record.deadline_ms is not None and record.deadline_ms <= target_ms
        ]:
            self._now_ms = min(record.deadline_ms for record in due if record.deadline_ms)
            for record in due:
                if record.deadline_ms == self._now_ms:
                    record.deadline_ms = None
                    self._due.append(record)
            self._run_due()
        self._now_ms = target_ms
        return None

    def outcome(self, number: int) -> str:
        record = self._records[number]
        return f"{number}:{record.state},{record.future}"

    def _start_timeout(self, record: AnyRecord) -> None:
        if record.spec.timeout_ms > 0:
            record.deadline_ms = self.deadline_ms(record.spec.timeout_ms)
        else:
            self._due.append(record)
            if not self._running:
                self._run_due()

    def _run_due(self) -> None:
        self._running = True
        while self._due:
            self._end(self._due.popleft(), "expired")
        self._running = False

    def _end(self, record: AnyRecord, state: str) -> bool:
        if record.state in ("completed", "expired"):
            return False
        self._mark(record, state)
        self._finish(record)
        return True

    def _mark(self, record: AnyRecord, state: str) -> None:
        """It has ended, and is counted; no callback has run."""
        record.state = state
        self._leave(record)
        if record.kept:
            self._totals[state] += 1

    def _finish(self, record: AnyRecord) -> None:
        """Run the callbacks of what has ended, then settle its future."""
        self.completed(record.number)
        if record.spec.raises == "on_complete":
            self._fail(record)
        if record.state == "expired":
            self.expired(record.number)
            if record.spec.raises == "on_expiration":
                self._fail(record)
        if record.future == "pending":
            record.future = "error" if record.failed else str(record.state == "completed")

    def _fail(self, record: AnyRecord) -> None:
        record.failed = True
        self._totals["errors"] += record.kept

    def _leave(self, record: AnyRecord) -> None:
        record.deadline_ms = None
        if record in self._waiting:
            self._waiting.remove(record)
        if record in self._due:
            self._due.remove(record)


# The real one.


class RealOperation(DelayedOperation):
    """An operation of a program. How it is tried, subclasses say."""

    def __init__(self, run: Run, number: int, spec: Any) -> None:
        super().__init__(spec.timeout_ms)
        self._in = run
        self.number = number
        self.spec = spec
        self.future: Future[bool] | None = None

    def on_complete(self) -> None:
        self._in.completed(self.number)
        self.maybe_raise("on_complete")

    def on_expiration(self) -> None:
        self._in.expired(self.number)
        self.maybe_raise("on_expiration")

    def maybe_raise(self, where: str) -> None:
        if self.spec.raises == where:
            raise ValueError(f"{self.number} was to raise in {where}")


AnyOperation = TypeVar("AnyOperation", bound=RealOperation)


class RealRun(Run, Generic[AnyOperation]):
    """Sojourn's purgatory on a clock that is moved by hand."""

    _clock: ManualClock
    _purgatory: Purgatory
    _operations: list[AnyOperation]

    def now_ms(self) -> int:
        return self._clock.now_ms

    def cancel(self, number: int) -> object:
        return self._operations[number].cancel()

    def force(self, number: int) -> object:
        return self._operations[number].force_complete()

    def advance(self, ms: int) -> object:
        self._clock.advance(ms)
        return None

    def counts(self) -> tuple[int, ...]:
        return self._purgatory.watched, self._purgatory.delayed, len(self._purgatory.timer)

    def totals(self) -> tuple[int, ...]:
        metrics = self._purgatory.metrics()
        return metrics.completed, metrics.expired, metrics.cancelled, metrics.errors

    def outcome(self, number: int) -> str:
        operation = self._operations[number]
        return f"{number}:{operation.state},{settled(operation.future)}"


def numbers(operations: list[DelayedOperation]) -> list[int]:
    """The numbers of a program's operations."""
    return [operation.number for operation in operations if isinstance(operation, RealOperation)]


def settled(future: Future[bool] | None) -> str:
    """What has become of a real operation's future."""
    if future is None:
        return "no future"
    if not future.done():
        return "pending"
    try:
        return str(future.result(timeout=0))
    except CancelledError:
        return "cancelled"
    except ValueError:
        return "error"


def difference(naive: list[str], real: list[str]) -> str | None:
    """Where the real run's log leaves the naive one's, with what came before; or None."""
    if naive == real:
        return None
    at = next(
        (n for n, (one, other) in enumerate(zip(naive, real, strict=False)) if one != other),
        min(len(naive), len(real)),
    )
    before = "\n".join(naive[max(0, at - 15) : at])
    after = "\n".join(
        f"{who}: {log[at : at + 1]}" for who, log in (("naive", naive), ("real", real))
    )
    return f"{before}\n{after}"


def print_runs(run: Callable[[int, str, int], list[str]]) -> None:
    """The main program of a module of runs: SEED PROGRAMS STEPS."""
    seed, programs, steps = map(int, sys.argv[1:])
    logging.getLogger("sojourn").disabled = True
    for number in range(programs):
        print("\n".join(run(seed + number, (SHARED, UNIQUE, FREE)[number % 3], steps)))


def printed(module: str, seed: int, programs: int, steps: int, *, pure: bool) -> bytes:
    """What such a main program prints on one of the builds, in a process of its own."""
    environment = {name: value for name, value in os.environ.items() if name != "SOJOURN_PURE"}
    environment.pop("SOJOURN_REQUIRE_COMPILED", None)
    environment["PYTHONHASHSEED"] = "random"
    if pure:
        environment["SOJOURN_PURE"] = "1"
    return subprocess.run(
        [sys.executable, "-m", module, str(seed), str(programs), str(steps)],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        timeout=600,
        check=True,
    ).stdout
