"""Line and branch coverage of src/, by room: `make coverage`, or of some tests

    python -m scripts.coverage_by_room tests/durable tests/core

The tests run interpreted, since compiled modules are not traced, on all processors. Processes that
tests start are measured too; Spark's Python workers are not. The data is in build/coverage, where
`coverage html` finds it: python -m coverage html --data-file build/coverage/data
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "build" / "coverage"
DATA = FOLDER / "data"
PACKAGE = "src/sojourn/"
# Two sweep over allocations, and tracing makes objects of its own; the third forks beside busy
# threads, of which one may hold a lock of coverage's just then.
LEFT_OUT = (
    "tests/core/test_collections.py",
    "tests/core/test_sweep.py",
    "tests/core/test_fork.py::"
    "test_forking_while_other_threads_are_at_the_wheel_leaves_a_whole_wheel_in_the_child",
)


@dataclass
class Covered:
    """How many lines and branches there are, and how many of them some test has run."""

    lines: int = 0
    lines_run: int = 0
    branches: int = 0
    branches_run: int = 0

    def add(self, summary: dict[str, Any]) -> None:
        """Count a file, as coverage's JSON has it."""
        self.lines += summary["num_statements"]
        self.lines_run += summary["covered_lines"]
        self.branches += summary["num_branches"]
        self.branches_run += summary["covered_branches"]


def by_room(files: dict[str, Any]) -> dict[str, Covered]:
    """The files of a coverage report by the package they are in; those beside them are "top"."""
    rooms: dict[str, Covered] = {}
    for name, file in files.items():
        room, slash, _ = Path(name).as_posix().removeprefix(PACKAGE).partition("/")
        rooms.setdefault(room if slash else "top", Covered()).add(file["summary"])
    return rooms


def table(rooms: dict[str, Covered]) -> str:
    """A line for each room, and one for all of them."""
    total = Covered()
    lines = [f"{'room':10}{'lines':>8}{'run':>9}{'branches':>11}{'run':>9}"]
    for name, room in sorted(rooms.items()):
        lines.append(_line(name, room))
        for field in vars(total):
            setattr(total, field, getattr(total, field) + getattr(room, field))
    return "\n".join([*lines, _line("all", total)])


def _line(name: str, room: Covered) -> str:
    lines, branches = _share(room.lines_run, room.lines), _share(room.branches_run, room.branches)
    return f"{name:10}{room.lines:8,}{lines:>9}{room.branches:11,}{branches:>9}"


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "–"


def main(tests: Sequence[str]) -> int:
    """Run the tests, print the table; return pytest's exit status."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    coverage = [sys.executable, "-m", "coverage"]
    environment = {**os.environ, "SOJOURN_PURE": "1"}
    pytest = [*coverage, "run", "--data-file", str(DATA), "-m", "pytest", "-q", "-n", "auto"]
    pytest += [f"--deselect={test}" for test in LEFT_OUT]
    status = subprocess.run([*pytest, *tests], cwd=ROOT, env=environment).returncode
    subprocess.run([*coverage, "combine", "-q", "--data-file", str(DATA)], cwd=ROOT, check=True)
    report = FOLDER / "report.json"
    subprocess.run(
        [*coverage, "json", "-q", "--data-file", str(DATA), "-o", str(report)], cwd=ROOT, check=True
    )
    print(table(by_room(json.loads(report.read_text())["files"])))
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
