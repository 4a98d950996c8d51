"""Random programs: the wheels against a naive model, themselves, and the other build."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from random import Random, SystemRandom
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from models import programs
from models.naive_wheel import NaiveWheel
from models.programs import CENTURY_MS, NAMES, Add, Advance, Cancel, Shape, Step

import sojourn
from sojourn import DeadlineWheel, TimerTask, TimingWheel

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

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


def check_timing_wheel(shape: Shape, steps: Iterable[Step]) -> None:
    """Work the program through a TimingWheel and the model, comparing all they say."""
    wheel = TimingWheel(*shape)
    model = NaiveWheel(shape.tick_ms, shape.start_ms)
    tasks = [TimerTask(name) for name in range(NAMES)]  # its delay serves as its name
    for step in steps:
        match step:
            case Add(name, expiration_ms):
                model.cancel(name)
                if wheel.add(tasks[name], expiration_ms):
                    assert not model.must_be_due(expiration_ms)
                    assert tasks[name].expiration_ms == expiration_ms
                    model.add(name, expiration_ms)
                else:
                    assert model.may_be_due(expiration_ms)
                    assert tasks[name].expiration_ms is None
            case Cancel(name):
                assert tasks[name].cancel() == model.cancel(name)
            case Advance(now_ms):
                due = [task.delay_ms for task in wheel.advance(now_ms)]
                for _, names in model.advance(now_ms):
                    assert set(due[: len(names)]) == names
                    del due[: len(names)]
                assert due == []
        check_next(wheel, model)


def check_deadline_wheel(shape: Shape, steps: Iterable[Step]) -> None:
    """Work the program through a DeadlineWheel and the model, comparing all they say."""
    wheel = DeadlineWheel(*shape)
    model = NaiveWheel(shape.tick_ms, shape.start_ms)
    handles: dict[int, int] = {}
    names: dict[int, int] = {}  # of the handles that wait
    late: set[int] = set()  # handles whose deadline had, or may have, passed when they were put in
    for step in steps:
        match step:
            case Add(name, deadline_ms):
                if name in handles:
                    assert wheel.cancel_many([handles[name]]) == model.cancel(name)
                    names.pop(handles[name], None)
                handle = handles[name] = wheel.add_many([deadline_ms])[0]
                assert handle not in names
                names[handle] = name
                late.discard(handle)
                if model.may_be_due(deadline_ms):
                    late.add(handle)
                model.add(name, deadline_ms)
            case Cancel(name):
                if name in handles:
                    assert wheel.cancel_many([handles[name]]) == model.cancel(name)
                    names.pop(handles[name], None)
            case Advance(now_ms):
                due = list(wheel.advance(now_ms))
                expected = model.advance(now_ms)
                first = sum(handle in late for handle in due)
                assert all(handle in late for handle in due[:first])
                due = [names.pop(handle) for handle in due]
                in_time = set(due[first:])
                assert set(due) == set().union(*(group for _, group in expected))
                for _, group in expected:
                    group &= in_time
                    assert set(due[first : first + len(group)]) == group
                    first += len(group)
                assert first == len(due)
        check_next(wheel, model)


def check_next(wheel: TimingWheel | DeadlineWheel, model: NaiveWheel) -> None:
    assert len(wheel) == len(model)
    next_ms, true_next_ms = wheel.next_expiration_ms, model.next_due_ms()
    assert (next_ms is None) == (true_next_ms is None)
    if next_ms is not None and true_next_ms is not None:
        assert next_ms <= true_next_ms


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
        [sys.executable, str(Path(programs.__file__)), str(seed), "4000"],
        env=keep | environment,
        stdout=subprocess.PIPE,
        check=True,
        timeout=120,
    ).stdout


def pure_here() -> dict[str, str]:
    """The setting that gives a subprocess the build this suite runs on."""
    return {} if sojourn.compiled else {"SOJOURN_PURE": "1"}


@pytest.mark.skipif(not sojourn.compiled, reason="there is no compiled build to compare with")
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
