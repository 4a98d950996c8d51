"""Random programs of operations that watch keys: every ending comes up, and small ones shrink."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.core.naive_purgatory import (
    KEYS,
    Program,
    RealRun,
    Spec,
    first_difference,
    random_program,
)
from tests.core.random_runs import SHARED, STEPS, UNIQUE, Step

# Programs raise on purpose, thousands of times; other tests look at the log.
pytestmark = pytest.mark.usefixtures("quiet_log")


def test_random_programs_come_to_every_ending() -> None:
    """Else the comparison above would compare nothing much."""
    endings = {"completed": 0, "expired": 0, "cancelled": 0, "errors": 0, "pending": 0}
    for number in range(10):
        for kind in (SHARED, UNIQUE):
            run = RealRun(random_program(number, kind, STEPS))
            log = run.whole()
            for ending, total in zip(endings, run.totals(), strict=False):
                endings[ending] += total
            endings["pending"] += sum(":pending" in line for line in log)
            assert any("AlreadyWaiting" in line for line in log)
    assert min(endings.values()) > 20, endings


# Small programs, which shrink.


def _steps(operations: int, reacting: bool) -> st.SearchStrategy[Step]:
    numbers = st.tuples(
        st.sampled_from(["submit", "submit", "cancel", "force"]), st.integers(0, operations - 1)
    )
    keys = st.tuples(
        st.sampled_from(["news", "signal", "quiet", "cancel_key"]), st.sampled_from(KEYS[:2])
    )
    advances = st.tuples(st.just("advance"), st.sampled_from([0, 1, 2, 19, 20, 21, 400]))
    return st.one_of(numbers, keys) if reacting else st.one_of(numbers, keys, advances)


@st.composite
def _programs(draw: st.DrawFn) -> Program:
    operations = 4
    kind = draw(st.sampled_from([SHARED, UNIQUE]))
    specs = []
    for _ in range(operations):
        keys = tuple(draw(st.lists(st.sampled_from(KEYS[:2]), min_size=1, max_size=3)))
        reactions: tuple[Step, ...] = ()
        if kind == UNIQUE:
            reactions = tuple(draw(st.lists(_steps(operations, True), max_size=2)))
        specs.append(
            Spec(
                timeout_ms=draw(st.sampled_from([-1, 0, 1, 2, 19, 20, 21, 400])),
                keys=keys,
                offset=draw(st.integers(0, 3)),
                needed=draw(st.integers(1, len(set(keys)))),
                just_true=draw(st.booleans()),
                raises=draw(
                    st.sampled_from(["", "", "try_complete", "on_complete", "on_expiration"])
                ),
                with_future=draw(st.booleans()),
                reactions=reactions,
            )
        )
    steps = draw(st.lists(_steps(operations, False), max_size=25))
    return Program(kind, draw(st.sampled_from([1, 3, 20])), tuple(specs), tuple(steps))


@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None
)
@given(_programs())
def test_small_random_programs_go_as_in_the_naive_purgatory(program: Program) -> None:
    difference = first_difference(program)
    assert difference is None, difference
