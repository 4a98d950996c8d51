"""Which build is in use, and that it is the one asked for."""

from __future__ import annotations

import gc
import importlib
import os
import shutil
import sys
from importlib.machinery import EXTENSION_SUFFIXES, SOURCE_SUFFIXES
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import sojourn
from sojourn import TimerTask
from tests import builds

if TYPE_CHECKING:
    from tests.conftest import FreshPython

ASKED_PURE = os.environ.get("SOJOURN_PURE", "") not in ("", "0")
COMPILABLE = sorted(name for name in builds.compiled_modules() if name.startswith("sojourn.core."))


def test_pure_runs_the_sources_of_every_module(fresh_python: FreshPython) -> None:
    done = fresh_python(
        "import sojourn, importlib\n"
        "print(sojourn.compiled)\n"
        f"for name in {COMPILABLE}:\n"
        "    print(importlib.import_module(name).__file__.endswith('.py'))\n",
        SOJOURN_PURE="1",
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == ["False"] + ["True"] * len(COMPILABLE)


@pytest.mark.parametrize("nothing", ["", "0"])
def test_pure_set_to_nothing_asks_for_nothing(fresh_python: FreshPython, nothing: str) -> None:
    asked = fresh_python("import sojourn; print(sojourn.compiled)", SOJOURN_PURE=nothing)
    unasked = fresh_python("import sojourn; print(sojourn.compiled)", UNRELATED="1")
    assert asked.stdout == unasked.stdout != ""


def test_requiring_the_compiled_build_and_the_interpreted_one_is_an_error(
    fresh_python: FreshPython,
) -> None:
    done = fresh_python("import sojourn", SOJOURN_PURE="1", SOJOURN_REQUIRE_COMPILED="1")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "ImportError: SOJOURN_PURE and SOJOURN_REQUIRE_COMPILED are both set; unset one"
    )


@pytest.mark.parametrize("asked", ["", "1"])
def test_running_interpreted_is_logged_unless_it_was_asked_for(
    fresh_python: FreshPython, tmp_path: Path, asked: str
) -> None:
    ignored = shutil.ignore_patterns("*.so", "*.pyd", "__pycache__")
    shutil.copytree(Path(sojourn.__file__).parent, tmp_path / "sojourn", ignore=ignored)
    done = fresh_python(
        "import logging; logging.basicConfig(level=logging.INFO, format='%(message)s')\n"
        "import sojourn; print(sojourn.__file__)",
        PYTHONPATH=str(tmp_path),
        SOJOURN_PURE=asked,
    )
    assert done.stdout.startswith(str(tmp_path))
    assert [line[:50] for line in done.stderr.splitlines()] == (
        [] if asked else ["sojourn is not compiled here and runs interpreted:"]
    )


@pytest.mark.skipif(not sojourn.compiled, reason="a claim about the compiled build")
def test_requiring_the_compiled_build_is_no_error_where_there_is_one(
    fresh_python: FreshPython,
) -> None:
    done = fresh_python("import sojourn; print(sojourn.compiled)", SOJOURN_REQUIRE_COMPILED="1")
    assert (done.stdout.strip(), done.stderr) == ("True", "")


def test_this_suite_runs_on_the_build_that_was_asked_for() -> None:
    if ASKED_PURE:
        assert not sojourn.compiled
    elif shutil.which("cc") or shutil.which("gcc"):
        assert sojourn.compiled, "there is a C compiler and the build is interpreted: make setup"


@pytest.mark.parametrize("name", COMPILABLE)
def test_every_module_comes_from_the_build_in_use(name: str) -> None:
    suffixes = EXTENSION_SUFFIXES if sojourn.compiled else SOURCE_SUFFIXES
    assert str(importlib.import_module(name).__file__).endswith(tuple(suffixes))


def test_the_hot_modules_are_among_those_that_are_compiled() -> None:
    hot = ("deadlines", "levels", "millis", "task", "timer", "wheel")
    assert {f"sojourn.core.{name}" for name in hot} <= set(COMPILABLE)


@pytest.mark.skipif(not sojourn.compiled, reason="a claim about the compiled build")
def test_a_compiled_task_is_64_bytes_and_unknown_to_the_collector() -> None:
    task = TimerTask(5, print)
    assert sys.getsizeof(task) <= 64
    assert not gc.is_tracked(task)


def test_the_tests_of_every_compiled_module_run_on_both_builds() -> None:
    assert set(builds.TESTS_OF) == builds.compiled_modules()


def test_the_files_that_run_on_both_builds_exist() -> None:
    files = {builds.name_of(path) for path in builds.TESTS.rglob("test_*.py")}
    assert files >= builds.BOTH_BUILDS


def test_this_very_file_runs_on_both_builds(request: pytest.FixtureRequest) -> None:
    assert request.node.get_closest_marker("both_builds")
