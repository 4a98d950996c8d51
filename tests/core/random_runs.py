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
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future
from typing import Any, Protocol

from tests.checkout import ROOT

SHARED, UNIQUE, FREE = "shared", "unique", "free"

Step = tuple[str, Any]


class Spec(Protocol):
    """One operation of a program."""

    @property
    def timeout_ms(self) -> int: ...
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

    def now_ms(self) -> int:
        raise NotImplementedError

    def counts(self) -> tuple[int, ...]:
        raise NotImplementedError

    def totals(self) -> tuple[int, ...]:
        raise NotImplementedError

    def outcome(self, number: int) -> str:
        raise NotImplementedError


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
