"""Runs the sweep in a process of its own, and goes on where that died or hung."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tests.checkout import ROOT

if TYPE_CHECKING:
    from tests.core.sweep.cases import Case

_DEATHS_PER_CASE = 2


class Failure(NamedTuple):
    """A point and what went wrong there."""

    case: Case
    at: int  # which allocation of the call
    kind: str  # "differs", "crash" or "hang"
    what: str

    def __str__(self) -> str:
        return f"{self.kind} at {self.case.name}, allocation {self.at}: {self.what}"


class Report(NamedTuple):
    """What a whole sweep found."""

    points: Counter[str]  # by call
    failures: list[Failure]

    def __str__(self) -> str:
        """Totals, the calls that failed, and of each a point for each kind of failure."""
        kinds = Counter(failure.kind for failure in self.failures)
        lines = [f"{self.points.total()} points of {len(self.points)} calls; {_listed(kinds)}"]
        for call, points in self.points.items():
            failures = [failure for failure in self.failures if failure.case.called == call]
            if failures:
                tally = Counter(failure.kind for failure in failures)
                lines.append(f"{call}: {points} points, {_listed(tally)}")
                firsts = {failure.kind: failure for failure in reversed(failures)}
                lines.extend(f"    {failure}" for failure in firsts.values())
        return "\n".join(lines)


def _listed(kinds: Counter[str]) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in kinds.items()) or "no failures"


def sweep(module: str, patience_s: float) -> Report:
    """Sweep through the module's cases; a point that takes longer than `patience_s` hangs."""
    cases: list[Case] = list(import_module(module).all_cases())
    report = Report(Counter(), [])
    deaths: Counter[int] = Counter()
    begin = (0, 1)
    with tempfile.TemporaryDirectory() as folder:
        progress = Path(folder, "progress")
        while begin[0] < len(cases):
            progress.write_text("")
            kind, lines, traceback = _run(
                [module, str(progress), *map(str, begin)], progress, patience_s
            )
            for line in lines:
                number, points, failures = json.loads(line)
                case = cases[number]
                report.points[case.called] += points - (begin[1] - 1 if number == begin[0] else 0)
                report.failures.extend(Failure(case, at, "differs", what) for at, what in failures)
            if not kind:
                break
            at_case, at_point = map(int, progress.read_text().split() or begin)
            case = cases[at_case]
            report.points[case.called] += at_point - (begin[1] - 1 if at_case == begin[0] else 0)
            report.failures.append(Failure(case, at_point, kind, traceback))
            deaths[at_case] += 1
            begin = (at_case, at_point + 1)
            if deaths[at_case] == _DEATHS_PER_CASE:
                begin = (at_case + 1, 1)
    return report


def _run(arguments: list[str], progress: Path, patience_s: float) -> tuple[str, list[str], str]:
    """Run until it ends, dies or stands still; return which, what it said, and where it was."""
    with (
        tempfile.TemporaryFile("w+") as said,
        tempfile.TemporaryFile("w+") as complained,
        subprocess.Popen(
            [sys.executable, "-m", __package__, *arguments],
            cwd=ROOT,
            stdout=said,
            stderr=complained,
        ) as process,
    ):
        kind = ""
        before, since_s = "", time.monotonic()
        while process.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.05)
            now = progress.read_text()
            if now != before:
                before, since_s = now, time.monotonic()
            elif time.monotonic() - since_s > patience_s:
                kind = "hang"
                process.send_signal(signal.SIGABRT)  # faulthandler says where it is
                try:
                    process.wait(5)
                except subprocess.TimeoutExpired:
                    process.kill()
        if process.returncode and not kind:
            kind = "crash"
        said.seek(0)
        complained.seek(0)
        traceback = complained.read().strip()[:1500]
        return kind, said.read().splitlines(), f"exit status {process.returncode}\n{traceback}"
