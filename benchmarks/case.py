"""One thing to measure, and the process of its own that measures it."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchmarks.jvm import Jvm

Row = dict[str, Any]
Params = dict[str, int | str | bool]

ROOT = Path(__file__).parent.parent
_LIMIT_S = 600


@dataclass(frozen=True)
class Case:
    """A contender in a scenario of a workload; `params` is all its process is told."""

    workload: str
    scenario: str
    contender: str
    params: Params
    repeats: int

    def run(self, jvm: Jvm) -> Row:
        """Measure once in a fresh process; a row with only `skipped` says why it could not."""
        if not self.contender.startswith("kafka"):
            return self.run_here()
        if jvm.missing:
            return {"skipped": jvm.missing}
        return _answer(jvm.command(self.workload, self.contender, self.params))

    def run_here(self, source: Path | None = None) -> Row:
        """Do the same in Python; with `source`, on the sojourn in that folder."""
        request = json.dumps([self.workload, self.contender, self.params])
        return _answer([sys.executable, "-m", "benchmarks.measure", request], source)


def _answer(command: list[str], source: Path | None = None) -> Row:
    env = None if source is None else {**os.environ, "PYTHONPATH": str(source)}
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=env, capture_output=True, text=True,
            timeout=_LIMIT_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return {"skipped": f"took longer than {_LIMIT_S} s"}
    if done.returncode != 0:
        return {"skipped": (done.stderr.strip().splitlines() or ["died in silence"])[-1]}
    row: Row = json.loads(done.stdout.splitlines()[-1])
    return row


class Skipped(Exception):
    """This cannot be measured here; the message says why."""


@dataclass
class Outcome:
    """What the repeats of a case came to."""

    case: Case
    rows: list[Row] = field(default_factory=list)
    skipped: str = ""

    def take(self, row: Row) -> None:
        if "skipped" in row:
            self.skipped = row["skipped"]
        else:
            self.rows.append(row)

    def median(self, name: str) -> float | None:
        """The median of a number over the repeats; None if it was not measured."""
        values = self.values(name)
        return statistics.median(values) if values else None

    def spread(self, name: str) -> tuple[float, float] | None:
        """The smallest and the largest over the repeats; None if there were fewer than two."""
        values = self.values(name)
        return (min(values), max(values)) if len(values) > 1 else None

    def values(self, name: str) -> list[float]:
        return [row[name] for row in self.rows if name in row]

    def text(self, name: str) -> str:
        return str(self.rows[0].get(name, "")) if self.rows else ""
