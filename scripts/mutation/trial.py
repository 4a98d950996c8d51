"""Trials: runs of tests, each in a forked process of its own, until one fails or all pass.

A trial that hangs has noticed the change too. Each test has a limit on its processor time, which
ends endless loops soon also on a busy machine, and a longer one on the wall, for those that sleep
for ever. A trial runs in a process group of its own, which is killed when it is over.

If this process was stopped meanwhile, or the machine slept, tests that wait for something may have
failed for that reason alone. So trials that were under way, and fail, begin again.
"""

from __future__ import annotations

import json
import os
import resource
import selectors
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

_MEMORY = 16 * 2**30  # of addresses, most of which libraries reserve and never use
_FILE = 2**30
FLAKY = 3  # so many tests may fail without a change; they are left out
ELSEWHERE = "reached-"  # files in which other processes tell the lines they ran
_START_S = 120  # for imports and collection
_LOOK_S = 0.5  # how often we look at limits
_STOPPED_S = 5.0  # when we did not get to look for so long, we were stopped


@dataclass(frozen=True)
class Trial:
    """What to run: these tests, or all of the files; and what stands in for the module."""

    name: str
    module: str
    source: str
    files: tuple[str, ...]
    tests: dict[str, float] | None = None  # in this order; processor seconds that each takes
    patience_s: float = 2.0  # of processor time, for each test, besides six times the usual

    def without(self, left_out: set[str]) -> Trial:
        """The same, but for these tests."""
        tests = {test: s for test, s in (self.tests or {}).items() if test not in left_out}
        return self if self.tests is None else replace(self, tests=tests)

    def usual_s(self, test: str) -> float:
        return 60.0 if self.tests is None else self.tests.get(test, 60.0)


@dataclass
class Verdict:
    """How a trial went."""

    trial: Trial
    exit: int | None = None  # what pytest said; None if it was killed or has crashed
    failed: list[str] = field(default_factory=list)  # tests that did
    timed_out: bool = False
    running: str | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    lines: dict[str, list[int]] = field(default_factory=dict)
    elsewhere: dict[str, list[int]] = field(default_factory=dict)  # of a file, in other processes
    at_import: list[int] = field(default_factory=list)  # lines that ran before the first test
    imported: list[str] = field(default_factory=list)

    @property
    def outcome(self) -> str:
        if self.timed_out:
            return "timed out"
        return "survived" if self.exit == 0 else "killed"

    @property
    def by(self) -> str:
        """The test that noticed."""
        if self.outcome == "survived":
            return ""
        return self.failed[0] if self.failed else self.running or "import"

    def hear(self, message: dict[str, Any]) -> None:
        """Take up what the trial's process reports."""
        match message:
            case {"collected": lines}:
                self.at_import = lines
            case {"start": test}:
                self.running = test
            case {"done": test}:
                self.seconds[test] = message["seconds"]
                self.lines[test] = message["lines"]
            case {"elsewhere": file}:
                self.elsewhere.setdefault(file, []).extend(message["lines"])
            case {"failed": test}:
                self.failed.append(test)
            case {"exit": code}:
                self.exit = code
                self.imported = message["imported"]


def run(
    trials: Iterable[Trial], begin: Callable[[Trial, Judge], None], scratch: Path, jobs: int
) -> Iterator[Verdict]:
    """Run the trials, so many at a time, and yield how each went as soon as it is over.

    `begin` runs the tests; it is called in the trial's own process.
    """
    waiting: Iterator[Trial] = iter(trials)
    running: dict[int, _Running] = {}
    with selectors.DefaultSelector() as selector:
        try:
            while True:
                while len(running) < jobs and (trial := next(waiting, None)) is not None:
                    started = _Running.start(trial, begin, scratch)
                    running[started.pipe] = started
                    selector.register(started.pipe, selectors.EVENT_READ)
                if not running:
                    return
                looked_s = time.monotonic()
                selector.select(_LOOK_S)
                was_stopped = time.monotonic() - looked_s > _STOPPED_S
                for one in list(running.values()):
                    if was_stopped:
                        one.forgive()
                    if one.read() or one.is_over_time():
                        selector.unregister(one.pipe)
                        del running[one.pipe]
                        verdict = one.finish()
                        if one.is_forgiven and verdict.outcome != "survived":
                            waiting = chain([verdict.trial], waiting)
                        else:
                            yield verdict
        finally:
            for one in running.values():
                one.finish()


class _Running:
    """A trial's process, seen from here."""

    def __init__(self, trial: Trial, pid: int, pipe: int, folder: Path) -> None:
        self.verdict = Verdict(trial)
        self.pipe = pipe
        self.is_forgiven = False
        self._idle_looks = 0
        self._deadline = time.monotonic() + _START_S
        self._pid = pid
        self._folder = folder
        self._rest = b""

    @classmethod
    def start(cls, trial: Trial, begin: Callable[[Trial, Judge], None], scratch: Path) -> _Running:
        sys.stdout.flush()
        sys.stderr.flush()
        reading, writing = os.pipe()
        folder = Path(tempfile.mkdtemp(prefix="trial-", dir=scratch))
        pid = os.fork()
        if pid == 0:
            try:
                os.close(reading)
                _confine(folder)
                begin(trial, Judge(trial, writing, folder))
            finally:
                os._exit(70)
        os.close(writing)
        os.set_blocking(reading, False)
        return cls(trial, pid, reading, folder)

    def read(self) -> bool:
        """Read what there is; say whether the process has ended."""
        while True:
            try:
                piece = os.read(self.pipe, 1 << 16)
            except BlockingIOError:
                return False
            if not piece:
                return True
            *lines, self._rest = (self._rest + piece).split(b"\n")
            for line in lines:
                message = json.loads(line)
                self.verdict.hear(message)
                if "exit" in message:
                    return True
                patience_s: float = _START_S
                if "start" in message:
                    patience_s = 20 + 10 * self.verdict.trial.usual_s(message["start"])
                self._deadline = time.monotonic() + patience_s

    def forgive(self) -> None:
        """Time has passed that the trial did not have, so a failure means nothing."""
        self.is_forgiven = True
        self._deadline = time.monotonic() + _START_S

    def is_over_time(self) -> bool:
        if time.monotonic() < self._deadline:
            return False
        # On a busy machine it may just not have had its turn.
        self._idle_looks = self._idle_looks + 1 if _is_idle(self._pid) else 0
        self.verdict.timed_out = self._idle_looks * _LOOK_S > _STOPPED_S
        return self.verdict.timed_out

    def finish(self) -> Verdict:
        """End the process and all that it has started; return how it went."""
        with suppress(ProcessLookupError):
            os.killpg(self._pid, signal.SIGKILL)
        with suppress(ProcessLookupError):  # it was not yet a group of its own
            os.kill(self._pid, signal.SIGKILL)
        _, status = os.waitpid(self._pid, 0)
        os.close(self.pipe)
        shutil.rmtree(self._folder, ignore_errors=True)
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU:
            self.verdict.timed_out = True
        return self.verdict


def _is_idle(session: int) -> bool:
    """Say whether all threads of all processes of the trial sleep, as far as the system tells."""
    states = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended
            if _fields(process / "stat")[3] == str(session):
                states += [_fields(path)[0] for path in process.glob("task/*/stat")]
    return all(state in "SZX" for state in states)


def _fields(stat: Path) -> list[str]:
    """State, parent, group, session, …: what follows the command's name."""
    return stat.read_text().rpartition(")")[2].split()


# In the trial's own process.


def _confine(folder: Path) -> None:
    """Limit what a trial can do: memory, file sizes, no output, files in a folder of its own."""
    os.setsid()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_FSIZE, (_FILE, _FILE))
    nowhere = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nowhere, standard)
    os.environ["TMPDIR"] = os.environ["PYTEST_DEBUG_TEMPROOT"] = str(folder)
    tempfile.tempdir = None  # to be found anew


class Judge:
    """A pytest plugin: chooses the tests, limits each one's time, and reports to the parent."""

    def __init__(self, trial: Trial, pipe: int, folder: Path) -> None:
        self.lines: set[int] = set()  # which the test that runs has reached, if that is noted
        self.folder = folder
        self._trial = trial
        self._pipe = pipe

    def tell(self, message: dict[str, Any]) -> None:
        rest = json.dumps(message).encode() + b"\n"
        while rest:
            rest = rest[os.write(self._pipe, rest) :]

    def chosen(self, items: list[pytest.Item]) -> list[pytest.Item]:
        """The trial's tests, in its order."""
        if self._trial.tests is None:
            return items
        place = {test: n for n, test in enumerate(self._trial.tests)}
        mine = [item for item in items if item.nodeid in place]
        return sorted(mine, key=lambda item: place[item.nodeid])

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = self.chosen(items)

    def pytest_collection_finish(self) -> None:
        self.tell({"collected": sorted(self.lines)})

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        self.tell({"start": item.nodeid})
        usual_s = self._trial.usual_s(item.nodeid)
        limit_s = int(time.process_time() + self._trial.patience_s + 6 * usual_s)
        resource.setrlimit(resource.RLIMIT_CPU, (limit_s, resource.RLIM_INFINITY))
        self.lines.clear()
        began_s = _processor_s()
        done = yield
        seconds = _processor_s() - began_s
        self.tell({"done": item.nodeid, "seconds": seconds, "lines": sorted(self.lines)})
        for path in self.folder.glob(f"{ELSEWHERE}*"):
            file = item.nodeid.partition("::")[0]
            self.tell({"elsewhere": file, "lines": json.loads(path.read_text())})
            path.unlink()
        return done

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.tell({"failed": report.nodeid})

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.tell({"failed": report.nodeid})


def _processor_s() -> float:
    """What this process and those it has waited for have used."""
    return sum(os.times()[:4])
