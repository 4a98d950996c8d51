"""`make mutants` on a toy: what it changes, what it finds, what it remembers."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.mutation.mutants import mutants_of
from scripts.mutation.score import subjects

ROOT = Path(__file__).parents[1]

SOURCE = '''\
"""A toy."""

from __future__ import annotations

import threading

LEAST = 0


def clamped(value: int, most: int = 10) -> int:
    """Return the value, but no more than `most`."""
    if value > most:
        return most
    return max(value, LEAST)


def count_down(number: int) -> int:
    while number > LEAST:
        number -= 1
    return number


def taken_twice() -> int:
    lock = threading.Lock()
    lock.acquire()
    lock.release()
    with lock:
        return 5


def printed() -> int:
    return 7


def forked() -> int:
    return 3


def forgotten() -> int:
    return 1


class Two:
    def __init__(self, two: int) -> None:
        self.two = two


class Pair(Two):
    def __init__(self, two: int) -> None:
        super().__init__(two)
'''

TESTS = """\
import os, subprocess, sys
from toy import Pair, clamped, count_down, forked, taken_twice

def test_clamped():
    assert [clamped(n) for n in (-1, 3, 10, 11)] == [0, 3, 10, 10]

def test_count_down():
    assert count_down(4) == 0

def test_taken_twice():
    assert taken_twice() == 5

def test_pair():
    assert Pair(2).two == 2

def test_what_a_child_says():
    child = os.fork()
    if child == 0:
        os._exit(forked())
    assert os.waitpid(child, 0)[1] == 3 << 8

def test_printed_by_another_process():
    program = [sys.executable, "-c", "import toy; print(toy.printed())"]
    assert subprocess.run(program, cwd="src", capture_output=True).stdout == b"7\\n"
"""

MODULES = """\
sources = "src"
patience_s = 0.2
hung_s = 3
environment.PYTEST_DISABLE_PLUGIN_AUTOLOAD = "1"
modules.toy = { tests = ["tests/test_*.py"], least = 0.9 }
"""

EQUIVALENT = "clamped: if value > most: → if value >= most:"


class Toy:
    """A project of one module, on disk."""

    def __init__(self, folder: Path, like: Path | None = None) -> None:
        self.folder = folder
        if like is not None:
            shutil.copytree(like, folder, dirs_exist_ok=True)
        self.write("src/toy.py", SOURCE)
        self.write("tests/test_toy.py", TESTS)
        self.write("modules.toml", MODULES)

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)

    def run(self, *options: str, **explained: str) -> subprocess.CompletedProcess[str]:
        lines = [f"{json.dumps(name)} = {json.dumps(why)}" for name, why in explained.items()]
        self.write("explained.toml", "\n".join(["[toy]", *lines]))
        places = {
            "root": self.folder,
            "modules": self.folder / "modules.toml",
            "explained": self.folder / "explained.toml",
            "out": self.folder / "out",
        }
        given = [f"--{name}={path}" for name, path in places.items()]
        return subprocess.run(
            [sys.executable, "-m", "scripts.mutation", *given, *options],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )

    def lines(self) -> list[dict[str, str]]:
        path = self.folder / "out" / "results.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return [json.loads(line) for line in lines if line.endswith("}")]

    def outcomes(self) -> dict[str, str]:
        return {line["name"]: line["outcome"] for line in self.lines()}


@pytest.fixture
def toy(tmp_path: Path) -> Toy:
    return Toy(tmp_path)


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A toy whose mutants have all been tried."""
    toy = Toy(tmp_path_factory.mktemp("toy"))
    toy.run()
    return toy.folder


@pytest.fixture
def tried(tmp_path: Path, once: Path) -> Toy:
    """A copy of it."""
    return Toy(tmp_path, like=once)


def test_what_a_test_notices_is_killed_and_what_none_does_survives(tried: Toy) -> None:
    ran = tried.run()
    outcomes = tried.outcomes()
    survivors = {name for name, outcome in outcomes.items() if outcome == "survived"}
    assert survivors == {
        EQUIVALENT,
        "count_down: number -= 1 → number -= 2",
        "forgotten: return 1 → return 2",
        "forgotten: return 1 → return 0",
    }, ran.stderr
    assert outcomes["module: LEAST = 0 → LEAST = -1"] == "killed"
    assert outcomes["clamped: return most → return None"] == "killed"
    assert outcomes["printed: return 7 → return 8"] == "killed"
    assert outcomes["forked: return 3 → return 4"] == "killed"
    assert outcomes["Pair.__init__: super().__init__(two) → pass"] == "killed"
    assert outcomes["count_down: number -= 1 → number += 1"] == "timed out"
    assert outcomes["taken_twice: lock.release() → pass"] == "hung"
    assert "-    if value > most:\n+    if value >= most:\n" in ran.stdout
    assert "forgotten: return 1 → return 2\n" in ran.stdout
    assert ran.returncode == 1
    assert "toy: " in ran.stderr
    assert "modules.toml asks for 90%" in ran.stderr


def test_an_explained_survivor_does_not_count_and_a_stale_explanation_is_an_error(
    tried: Toy,
) -> None:
    killed = "clamped: return most → return None"
    gone = "clamped: if value < most: → if value <= most:"
    why = "both are `most` then"
    ran = tried.run(**{EQUIVALENT: why, killed: why, gone: why})
    table = [line.split() for line in ran.stdout.splitlines() if line.startswith("toy  ")]
    survived, explained = table[0][-3:-1]
    assert (survived, explained) == ("3", "1")
    assert "if value >= most" not in ran.stdout
    assert ran.returncode == 1
    assert f"there is no mutant {gone!r}" in ran.stderr
    assert f"{killed!r} is killed by tests/test_toy.py::test_clamped" in ran.stderr
    assert EQUIVALENT not in ran.stderr


def test_a_run_goes_on_where_the_last_one_ended_and_tries_survivors_with_new_tests(
    tried: Toy,
) -> None:
    results = tried.folder / "out" / "results.jsonl"
    lines = results.read_text().splitlines(keepends=True)
    results.write_text("".join(lines[:-2]) + lines[-1][:20])  # as if it had been cut off
    tried.run()
    assert len(tried.lines()) == len(lines)
    tried.write("tests/test_more.py", "import toy\ndef test_it(): assert toy.forgotten() == 1\n")
    tried.run()
    assert len(tried.lines()) == len(lines) + 4  # the survivors, again
    assert tried.outcomes()["forgotten: return 1 → return 2"] == "killed"


def test_tests_that_cannot_run_without_a_change_are_an_error(toy: Toy) -> None:
    toy.write("tests/test_more.py", "import nobody_has_this\n")
    ran = toy.run()
    assert ran.returncode == 1
    assert "fail without any change: killed by tests/test_more.py" in ran.stderr
    assert toy.lines() == []


def test_a_sample_is_the_same_for_the_same_seed(toy: Toy) -> None:
    ran = toy.run("--sample=3", "--seed=5")
    assert f"3 of {len(mutants_of('toy', SOURCE))} mutants, seed 5" in ran.stdout
    once = set(toy.outcomes())
    assert len(once) == 3
    toy.run("--sample=3", "--seed=5")
    assert len(toy.lines()) == 3


def test_mutants_may_be_chosen_by_a_part_of_their_name(toy: Toy) -> None:
    toy.run("--match=clamped: return")
    assert set(toy.outcomes()) == {
        "clamped: return most → return None",
        "clamped: return max(value, LEAST) → return None",
    }


def changes(source: str) -> set[str]:
    return {mutant.change for mutant in mutants_of("m", source)}


@pytest.mark.parametrize(
    "source",
    [
        "def f():\n    'A docstring 1.'\n",
        "x: Literal[1]",
        "if cython.compiled:\n    x = 1",
        "if TYPE_CHECKING:\n    x = 1",
        "if not cython.compiled:\n    pass\nelse:\n    x = 1",
        "if cython.compiled and x > 1:\n    x = 1",
        "def f():\n    if not cython.compiled:\n        return\n    g(1)",
        "def f(x):\n    assert x > 1\n    log.info('%s', x + 1)",
        "def __repr__(self):\n    return str(1)",
        "text = f'{x + 1}' + 'a'",
    ],
)
def test_what_never_runs_or_is_for_people_is_left_alone(source: str) -> None:
    assert changes(source) == set()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("a < b", {"a <= b", "a >= b"}),
        ("c - a * b", {"c + a * b", "c - (a // b)"}),
        ("not a", {"a"}),
        ("x and y", {"x or y", "(not x) and y", "x and (not y)"}),
        ("x if not cython.compiled and y else z", {
            "x if not cython.compiled or y else z", "x if not cython.compiled and (not y) else z"
        }),
    ],
)  # fmt: skip
def test_an_expression_has_these_mutants(line: str, expected: set[str]) -> None:
    assert changes(f"r = {line}") == {f"r = {line} → r = {other}" for other in expected}


def test_a_statement_has_these_mutants() -> None:
    source = "def f(a=1):\n    g(a)\n    while a:\n        break\n    raise Bad(1)"
    assert changes(source) == {
        "def f(a=1): → def f(a=2):",
        "def f(a=1): → def f(a=0):",
        "g(a) → pass",
        "while a: → while not a:",
        "break → continue",
        "raise Bad(1) → pass",
    }


def test_the_modules_that_are_changed_and_their_tests_exist() -> None:
    listed = subjects(ROOT / "scripts" / "mutation" / "modules.toml", ROOT, None)
    assert all(subject.mutants for subject in listed)
