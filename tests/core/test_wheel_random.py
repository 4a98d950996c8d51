"""Random programs: the wheels against a naive model, themselves, and the other build."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import contextmanager
from random import Random, SystemRandom
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sojourn
from sojourn import TimerTask, TimingWheel
from tests.checkout import ROOT
from tests.core.models import programs
from tests.core.models.checked import check_deadline_wheel, check_timing_wheel
from tests.core.models.programs import CENTURY_MS, Add, Advance, Cancel, Shape, Step

if TYPE_CHECKING:
    from collections.abc import Iterator

SHAPES = st.builds(
    Shape,
    tick_ms=st.integers(1, 50),
    wheel_size=st.integers(2, 64),
    start_ms=st.one_of(st.integers(-100, 100), st.integers(-(2**60), 2**60)),
)
# Relative to the time so far, so that a shrunk program stays near the present.
MOVES = st.lists(
    st.one_of(
        st.tuples(
            st.just(Add),
            st.integers(0, 9),
            st.one_of(st.integers(-5, 300), st.integers(-5, 20 * CENTURY_MS)),
        ),
        st.tuples(st.just(Cancel), st.integers(0, 9), st.just(0)),
        st.tuples(
            st.just(Advance),
            st.just(0),
            st.one_of(st.integers(0, 100), st.integers(0, 20 * CENTURY_MS)),
        ),
    ),
    max_size=40,
)


def steps_of(shape: Shape, moves: list[tuple[type, int, int]]) -> Iterator[Step]:
    now_ms = shape.start_ms
    for kind, name, by_ms in moves:
        if kind is Add:
            yield Add(name, now_ms + by_ms)
        elif kind is Cancel:
            yield Cancel(name)
        else:
            now_ms += by_ms
            yield Advance(now_ms)


@settings(max_examples=150, deadline=None)
@given(SHAPES, MOVES)
def test_any_program_on_a_timing_wheel_does_what_the_naive_wheel_does(
    shape: Shape, moves: list[tuple[type, int, int]]
) -> None:
    check_timing_wheel(shape, steps_of(shape, moves))


@settings(max_examples=150, deadline=None)
@given(SHAPES, MOVES)
def test_any_program_on_a_deadline_wheel_does_what_the_naive_wheel_does(
    shape: Shape, moves: list[tuple[type, int, int]]
) -> None:
    check_deadline_wheel(shape, steps_of(shape, moves))


@contextmanager
def a_seed() -> Iterator[int]:
    """A fresh seed, or the one in SOJOURN_TEST_SEED; a failure says which it was."""
    seed = int(os.environ.get("SOJOURN_TEST_SEED") or SystemRandom().randrange(2**32))
    try:
        yield seed
    except BaseException as error:
        error.add_note(f"to see it again: SOJOURN_TEST_SEED={seed}")
        raise


def test_sixty_thousand_random_steps_on_timing_wheels_do_what_the_naive_wheel_does() -> None:
    with a_seed() as seed:
        rng = Random(seed)
        for _ in range(60):
            shape = programs.random_shape(rng)
            check_timing_wheel(shape, programs.random_steps(rng, shape, 1_000))


def test_sixty_thousand_random_steps_on_deadline_wheels_do_what_the_naive_wheel_does() -> None:
    with a_seed() as seed:
        rng = Random(seed)
        for _ in range(60):
            shape = programs.random_shape(rng)
            check_deadline_wheel(shape, programs.random_steps(rng, shape, 1_000))


def log_of(seed: int, **environment: str) -> bytes:
    """What a fresh interpreter prints for the program with this seed."""
    keep = {k: v for k, v in os.environ.items() if k not in ("SOJOURN_PURE", "PYTHONHASHSEED")}
    return subprocess.run(
        [sys.executable, "-m", programs.__name__, str(seed), "4000"],
        cwd=ROOT,
        env=keep | environment,
        stdout=subprocess.PIPE,
        check=True,
        timeout=120,
    ).stdout


def pure_here() -> dict[str, str]:
    """The setting that gives a subprocess the build this suite runs on."""
    return {} if sojourn.compiled else {"SOJOURN_PURE": "1"}


@pytest.mark.skipif(not sojourn.compiled, reason="interpreted: the compiled run compares the two")
def test_compiled_and_interpreted_say_the_same_to_the_letter() -> None:
    with a_seed() as seed:
        compiled, interpreted = log_of(seed), log_of(seed, SOJOURN_PURE="1")
        assert len(compiled.splitlines()) > 4000
        assert compiled.splitlines() == interpreted.splitlines()


def test_the_order_within_a_tick_is_the_same_under_any_hash_seed() -> None:
    with a_seed() as seed:
        first, second = (log_of(seed, PYTHONHASHSEED=h, **pure_here()) for h in ("1", "31337"))
        assert len(first.splitlines()) > 4000
        assert first.splitlines() == second.splitlines()


def test_the_same_program_twice_gives_the_same_order() -> None:
    def due() -> list[list[int]]:
        rng = Random(7)
        shape = Shape(tick_ms=20, wheel_size=3, start_ms=0)
        wheel = TimingWheel(*shape)
        tasks = [TimerTask(name) for name in range(500)]
        for task in tasks:
            wheel.add(task, rng.randint(20, 400))
        for task in rng.sample(tasks, 100):
            task.cancel()
        return [[task.delay_ms for task in wheel.advance(now)] for now in range(0, 420, 60)]

    assert due() == due()
    assert any(len(together) > 10 for together in due())
