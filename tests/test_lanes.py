"""A run and its workers: what stays together, in which order, from which seed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests import builds, lanes
from tests.checkout import ROOT


def test_a_file_is_a_lane_and_what_shares_a_session_is_one() -> None:
    assert lanes.lane_of("tests/core/test_wheel.py::test_a[1]") == "core/test_wheel"
    for lane, tests in {
        "spark session": (
            "spark/test_batch.py::test_a",
            "test_readme.py::test_b[README.md:3 on spark]",
            "test_one_answer.py::test_c[spark batch]",
        ),
        "spark streams": (
            "spark/test_stream.py::test_a",
            "test_one_answer.py::test_c[spark streaming]",
        ),
    }.items():
        assert {lanes.lane_of(f"tests/{test}") for test in tests} == {lane}
    assert lanes.lane_of("tests/test_one_answer.py::test_c[spark's stages]") == "test_one_answer"


def test_what_takes_longest_comes_first() -> None:
    ids = ["tests/aio/test_timer.py::test_a", "tests/spark/test_batch.py::test_b"]
    assert sorted(ids, key=lanes.rank) == ids[::-1]


def test_the_lanes_named_are_those_of_files_that_exist() -> None:
    files = {builds.name_of(path) for path in builds.TESTS.rglob("test_*.py")}
    named = {part.removesuffix(".py") for parts in lanes.SHARED.values() for part in parts}
    assert {name for name in {*named, *lanes.FIRST} if "test_" in name} <= files


FAILING = """
import os, random, signal
from tests.seeds import seed

def test_fails() -> None:
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    raise AssertionError(f"drew {seed()}")
"""


def test_a_failure_names_the_seed_of_the_run(tmp_path: Path) -> None:
    pytest.importorskip("xdist")
    (tmp_path / "test_failing.py").write_text(FAILING)
    (tmp_path / "conftest.py").write_text("from tests.conftest import *\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-n", "2", tmp_path],
        env=os.environ | {"SOJOURN_SEED": "1234567", "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        # As a shell starts what runs in the background.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
        capture_output=True,
        text=True,
        check=False,
    )
    assert "drew 1234567" in done.stdout, done.stdout
    assert done.stdout.count("SOJOURN_SEED=1234567") == 2  # at the start, and by the failure
