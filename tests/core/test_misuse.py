"""Wrong use of every public class: an error of ours that says so, the same on both builds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache

import pytest

import sojourn
from tests.checkout import ROOT
from tests.core import misuse
from tests.core.misuse import ARGUMENT, COPIED, FORGOT, NAMES, NEW, TWICE, UNUSED, Line

# What a subclass overrides, and what is there to be looked at: harmless before `__init__`.
HARMLESS = {
    "repr",
    "name",
    "timer",
    "try_complete()",
    "on_complete()",
    "on_expiration()",
}


@cache
def lines(pure: bool) -> list[Line]:
    """The walk in a process of its own, on one build."""
    keep = {name: value for name, value in os.environ.items() if not name.startswith("SOJOURN_")}
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-m", misuse.__name__],
        cwd=ROOT,
        env=keep | ({"SOJOURN_PURE": "1"} if pure else {}),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    walked = [Line(*json.loads(line)) for line in done.stdout.splitlines()]
    last = walked[-1] if walked else None
    assert done.returncode == 0, f"it died after {last}:\n{done.stderr}"
    return walked


def of_kind(*kinds: str) -> list[Line]:
    found = [line for line in lines(not sojourn.compiled) if line.kind in kinds]
    assert found
    return found


def test_every_error_of_a_misuse_is_one_of_ours() -> None:
    assert [
        line for line in of_kind(NEW, FORGOT, TWICE, COPIED, ARGUMENT) if not line.is_ours
    ] == []


def test_what_was_never_initialised_says_so() -> None:
    for line in of_kind(NEW, FORGOT):
        allowed = {"NotInitialised", ""} if line.what in HARMLESS else {"NotInitialised"}
        assert line.error in allowed, line


def test_what_was_never_initialised_can_be_shown() -> None:
    for line in of_kind(NEW, FORGOT):
        if line.what == "repr":
            assert line.error == "", line


def test_nothing_is_initialised_twice_but_a_task_that_does_not_wait() -> None:
    for line in of_kind(TWICE):
        if line.what != "at once":
            assert line.error == "AlreadyWaiting", line
        elif line.cls in ("TimerTask", "DelayedOperation", "DelayedFuture"):
            assert line.error == "", line
        else:
            assert line.error == "AlreadyInitialised", line


def test_nothing_can_be_copied_or_pickled() -> None:
    for line in of_kind(COPIED):
        assert line.error == "WrongType", line


def test_most_bad_arguments_are_refused() -> None:
    """Else the walk would not find much."""
    bad = of_kind(ARGUMENT)
    assert len(bad) > 1_000
    assert sum(line.error != "" for line in bad) > 700


def test_the_walk_uses_every_public_name() -> None:
    for line in of_kind(UNUSED):
        assert line.message == "''", line


@pytest.mark.skipif(not sojourn.compiled, reason="interpreted: the compiled run compares the two")
def test_both_builds_answer_every_misuse_alike() -> None:
    compiled, interpreted = lines(False), lines(True)
    assert len(compiled) == len(interpreted)
    for one, other in zip(compiled, interpreted, strict=True):
        assert one == other


@pytest.mark.skipif(not sojourn.compiled, reason="interpreted: the compiled run compares the two")
def test_both_builds_have_the_same_public_names() -> None:
    names = [[line for line in lines(pure) if line.kind == NAMES] for pure in (False, True)]
    assert names[0] == names[1]
