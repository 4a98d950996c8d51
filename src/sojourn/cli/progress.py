"""What a command is doing, on stderr: a line that moves on a terminal, else a line now and then."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LINE_EVERY_S = 10.0
_LOOK_EVERY_S = 0.5


class Progress(Protocol):
    """Hears what is going on."""

    def step(self, what: str) -> None:
        """Something else begins."""

    def update(self, done: int, total: int | None, unit: str) -> None:
        """So much of it is done."""


class NoProgress:
    """Says nothing."""

    def step(self, what: str) -> None:
        pass

    def update(self, done: int, total: int | None, unit: str) -> None:
        pass


class LineProgress:
    """A line for each step, and one every ten seconds while it lasts."""

    def __init__(self, stream: Any, every_s: float = _LINE_EVERY_S) -> None:
        self._stream = stream
        self._every_s = every_s
        self._what = ""
        self._said_s = monotonic()

    def step(self, what: str) -> None:
        self._what = what
        self._said_s = monotonic()
        print(f"{what} …", file=self._stream, flush=True)

    def update(self, done: int, total: int | None, unit: str) -> None:
        if monotonic() - self._said_s < self._every_s:
            return
        self._said_s = monotonic()
        of = f" of {total:,}" if total else ""
        print(f"{self._what} … {done:,}{of} {unit}", file=self._stream, flush=True)


class BarProgress:
    """One line of rich's, gone when all is done."""

    def __init__(self, bars: Any) -> None:
        self._bars = bars
        self._task: Any = None

    def step(self, what: str) -> None:
        if self._task is not None:
            self._bars.remove_task(self._task)
        self._task = self._bars.add_task(what, total=None, unit="")

    def update(self, done: int, total: int | None, unit: str) -> None:
        if self._task is not None:
            of = f" of {total:,}" if total else ""
            self._bars.update(self._task, completed=done, total=total, unit=f"{done:,}{of} {unit}")


@contextmanager
def showing(*, quiet: bool = False) -> Iterator[Progress]:
    """Progress in the way that suits where stderr goes."""
    if quiet:
        yield NoProgress()
        return
    if sys.stderr.isatty():
        try:
            from rich.console import Console
            from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
            from rich.progress import Progress as Bars
        except ImportError:
            pass
        else:
            columns = (
                SpinnerColumn(),
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.fields[unit]}"),
                TimeElapsedColumn(),
            )
            with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
                yield BarProgress(bars)
            return
    yield LineProgress(sys.stderr)


@contextmanager
def watching(spark: SparkSession, progress: Progress) -> Iterator[None]:
    """Tell how many of the tasks that Spark knows of are done, until the block ends."""
    over = threading.Event()
    tracker = spark.sparkContext.statusTracker()
    tasks_by_stage: dict[int, tuple[int, int]] = {}

    def look() -> None:
        while not over.wait(_LOOK_EVERY_S):
            try:
                for stage in tracker.getActiveStageIds():
                    info = tracker.getStageInfo(stage)
                    if info is not None:
                        tasks_by_stage[stage] = (info.numCompletedTasks, info.numTasks)
                active = set(tracker.getActiveStageIds())
            except Exception:  # the session is being stopped; what matters is told elsewhere
                return
            done = sum(n if stage in active else of for stage, (n, of) in tasks_by_stage.items())
            if tasks_by_stage:
                progress.update(done, sum(of for _, of in tasks_by_stage.values()), "tasks")

    thread = threading.Thread(target=look, name="sojourn-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(timeout=2)
