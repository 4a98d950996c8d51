"""Trials: runs of tests, each in a forked process of its own, until one fails or all pass.

A trial that does not end has noticed the change too. There are two ways, told apart:

    timed out   a test uses much more processor time than without the change: an endless loop
    hung        for a minute all threads of the trial sleep, whenever we look: it waits for ever

Neither depends on how busy the machine is: a thread that waits for a processor does not sleep. A
trial that sleeps leaves its place to the next one, so that many may hang side by side. Each runs in
a process group of its own, which is killed when it is over.

A test that waits for something with a limit on the wall may fail because the machine was busy. So a
trial that fails begins again, once, if the test had slept for seconds, or if this process was
stopped meanwhile. The second verdict counts.
"""

from __future__ import annotations

import json
import math
import os
import resource
import selectors
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

_MEMORY = 16 * 2**30  # of addresses, most of which libraries reserve and never use
_FILE = 2**30
FLAKY = 3  # so many tests may fail without a change; they are left out
AT_IMPORT = "import"  # instead of a test: it ended before the first
ELSEWHERE = "reached-"  # files in which other processes tell the lines they ran
_LOOK_S = 1.0  # how often we look at whether trials sleep
_ASLEEP_LOOKS = 3  # so many in a row, and the trial leaves its place to another
_ASLEEP_TRIALS = 12  # so many may sleep beside those that work
_STOPPED_S = 5.0  # when we did not get to look for so long, we were stopped
_LONG_WAIT_S = 4.0  # a test that slept for so long may have reached a limit on the wall
_SEED = "SOJOURN_SEED"


@dataclass(frozen=True)
class Trial:
    """What to run: these tests, or all of the files; and what stands in for the module."""

    name: str
    module: str
    source: str
    files: tuple[str, ...]
    tests: dict[str, float] | None = None  # in this order; processor seconds that each takes
    patience_s: float = 0.5  # of processor time, for each test, besides six times the usual
    hung_s: float = 60.0  # asleep, and then it counts as hung

    def without(self, left_out: set[str]) -> Trial:
        """The same, but for these tests."""
        tests = {test: s for test, s in (self.tests or {}).items() if test not in left_out}
        return self if self.tests is None else replace(self, tests=tests)

    def in_order(self, rank: Callable[[str], int]) -> Trial:
        """The same, by rank; of the same rank, in the order of before."""
        tests = self.tests or {}
        return replace(self, tests={test: tests[test] for test in sorted(tests, key=rank)})

    def usual_s(self, test: str) -> float:
        return 60.0 if self.tests is None else self.tests.get(test, 60.0)


@dataclass
class Verdict:
    """How a trial went."""

    trial: Trial
    exit: int | None = None  # what pytest said; None if it was killed or has crashed
    failed: list[str] = field(default_factory=list)  # tests that did
    timed_out: bool = False  # by its processor time
    hung: bool = False
    waited_long: bool = False  # the test that failed
    running: str | None = None
    seconds: dict[str, float] = field(default_factory=dict)  # of a processor, for each test
    asleep_s: dict[str, float] = field(default_factory=dict)  # on the wall
    lines: dict[str, list[int]] = field(default_factory=dict)
    elsewhere: dict[str, list[int]] = field(default_factory=dict)  # of a file, in other processes
    at_import: list[int] = field(default_factory=list)  # lines that ran before the first test
    imported: list[str] = field(default_factory=list)

    @property
    def outcome(self) -> str:
        if self.timed_out:
            return "timed out"
        if self.hung:
            return "hung"
        return "survived" if self.exit == 0 else "killed"

    @property
    def by(self) -> str:
        """The test that noticed."""
        if self.outcome == "survived":
            return ""
        return self.failed[0] if self.failed else self.running or AT_IMPORT

    def hear(self, message: dict[str, Any]) -> None:
        """Take up what the trial's process reports."""
        match message:
            case {"collected": lines}:
                self.at_import = lines
            case {"start": test}:
                self.running = test
            case {"done": test}:
                self.seconds[test] = message["seconds"]
                self.asleep_s[test] = message["asleep_s"]
                self.lines[test] = message["lines"]
            case {"elsewhere": file}:
                self.elsewhere.setdefault(file, []).extend(message["lines"])
            case {"failed": test}:
                self.failed.append(test)
                self.waited_long = message["asleep_s"] > _LONG_WAIT_S
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
    doubted: set[str] = set()
    looked_s = time.monotonic()
    with selectors.DefaultSelector() as selector:
        try:
            while True:
                while _has_place(running.values(), jobs):
                    if (trial := next(waiting, None)) is None:
                        break
                    started = _Running.start(trial, begin, scratch)
                    running[started.pipe] = started
                    selector.register(started.pipe, selectors.EVENT_READ)
                if not running:
                    return
                selector.select(_LOOK_S)
                ended = [one for one in running.values() if one.read()]
                if (since_s := time.monotonic() - looked_s) >= _LOOK_S:
                    looked_s = time.monotonic()
                    awake = cache(_awake)
                    for one in running.values():
                        one.look(awake, was_stopped=since_s > _STOPPED_S)
                    ended += [one for one in running.values() if one.is_hung and one not in ended]
                for one in ended:
                    selector.unregister(one.pipe)
                    del running[one.pipe]
                    verdict = one.finish()
                    if one.is_doubtful and verdict.trial.name not in doubted:
                        doubted.add(verdict.trial.name)
                        waiting = chain([verdict.trial], waiting)
                    else:
                        yield verdict
        finally:
            for one in running.values():
                one.finish()


def _has_place(running: Collection[_Running], jobs: int) -> bool:
    working = sum(not one.is_asleep for one in running)
    return working < jobs and len(running) < jobs + _ASLEEP_TRIALS


class _Running:
    """A trial's process, seen from here."""

    def __init__(self, trial: Trial, pid: int, pipe: int, folder: Path) -> None:
        self.verdict = Verdict(trial)
        self.pipe = pipe
        self._was_stopped = False
        self._asleep_looks = 0  # in a row
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
                self._asleep_looks = 0
                if "exit" in message:
                    return True

    def look(self, awake: Callable[[], set[int]], was_stopped: bool) -> None:
        """Note whether the trial sleeps; `awake` are the sessions with a thread that does not."""
        self._was_stopped |= was_stopped
        is_awake = _is_awake(Path(f"/proc/{self._pid}")) or self._pid in awake()
        self._asleep_looks = 0 if is_awake else self._asleep_looks + 1

    @property
    def is_asleep(self) -> bool:
        return self._asleep_looks >= _ASLEEP_LOOKS

    @property
    def is_hung(self) -> bool:
        trial, test = self.verdict.trial, self.verdict.running
        usual_s = trial.usual_s(test) if test else 0.0
        return self._asleep_looks * _LOOK_S > trial.hung_s + 10 * usual_s

    @property
    def is_doubtful(self) -> bool:
        """Whether it may have failed for want of time on the wall."""
        return self.verdict.outcome == "killed" and (self._was_stopped or self.verdict.waited_long)

    def finish(self) -> Verdict:
        """End the process and all that it has started; return how it went."""
        self.verdict.hung = self.is_hung
        with suppress(ProcessLookupError):
            os.killpg(self._pid, signal.SIGKILL)
        with suppress(ProcessLookupError):  # it was not yet a group of its own
            os.kill(self._pid, signal.SIGKILL)
        _, status = os.waitpid(self._pid, 0)
        os.close(self.pipe)
        shutil.rmtree(self._folder, ignore_errors=True)
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGPROF, signal.SIGXCPU):
            self.verdict.timed_out = True
        return self.verdict


def _awake() -> set[int]:
    """The sessions of processes that have a thread that does not sleep, as the system tells."""
    awake = set()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended
            if _is_awake(process):
                awake.add(int(_fields(process / "stat")[3]))
    return awake


def _is_awake(process: Path) -> bool:
    states = []
    for path in process.glob("task/*/stat"):
        with suppress(OSError):  # the thread has ended
            states.append(_fields(path)[0])
    return any(state not in "SZX" for state in states)


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
        self._seed = os.environ.get(_SEED)
        self._asleep_s = 0.0

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
        if os.environ.get(_SEED) != self._seed:
            raise pytest.UsageError(f"a test before {item.nodeid} has changed {_SEED}")
        self.tell({"start": item.nodeid})
        usual_s = self._trial.usual_s(item.nodeid)
        limit_s = self._trial.patience_s + 6 * usual_s
        signal.setitimer(signal.ITIMER_PROF, limit_s)  # ends this process
        resource.setrlimit(resource.RLIMIT_CPU, _whole_s(time.process_time() + 2 * limit_s))
        self.lines.clear()
        began_s = _processor_s()
        self._asleep_s = _asleep_s()
        done = yield
        signal.setitimer(signal.ITIMER_PROF, 0)
        seconds = _processor_s() - began_s
        asleep_s = _asleep_s() - self._asleep_s
        told = {"seconds": seconds, "asleep_s": asleep_s, "lines": sorted(self.lines)}
        self.tell({"done": item.nodeid, **told})
        for path in self.folder.glob(f"{ELSEWHERE}*"):
            file = item.nodeid.partition("::")[0]
            self.tell({"elsewhere": file, "lines": [int(n) for n in path.read_text().split()]})
            path.unlink()
        return done

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.tell({"failed": report.nodeid, "asleep_s": _asleep_s() - self._asleep_s})

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.tell({"failed": report.nodeid, "asleep_s": 0.0})


def _whole_s(seconds: float) -> tuple[int, int]:
    """A soft limit on processor time, which processes that a test starts have too."""
    return math.ceil(seconds), resource.RLIM_INFINITY


def _processor_s() -> float:
    """What this process and those it has waited for have used."""
    return sum(os.times()[:4])


def _asleep_s() -> float:
    """How long this thread has slept; a time in which it waits for a processor does not count."""
    try:
        used_ns, waited_ns, _ = map(int, Path("/proc/thread-self/schedstat").read_text().split())
    except OSError:
        return time.monotonic() - time.thread_time()
    return time.monotonic() - (used_ns + waited_ns) / 1e9
