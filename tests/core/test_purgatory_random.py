"""Random programs of operations that watch keys: every ending comes up, and small ones shrink."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core import small_programs as small
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


def _steps(reacting: bool) -> st.SearchStrategy[Step]:
    keys = st.tuples(
        st.sampled_from(["news", "signal", "quiet", "cancel_key"]), st.sampled_from(KEYS[:2])
    )
    steps = st.one_of(small.NUMBERED, keys)
    return steps if reacting else st.one_of(steps, small.ADVANCES)


@st.composite
def _programs(draw: st.DrawFn) -> Program:
    kind = draw(st.sampled_from([SHARED, UNIQUE]))
    specs = []
    for _ in range(small.OPERATIONS):
        keys = tuple(draw(st.lists(st.sampled_from(KEYS[:2]), min_size=1, max_size=3)))
        specs.append(
            Spec(
                timeout_ms=draw(small.TIMEOUTS_MS),
                keys=keys,
                offset=draw(st.integers(0, 3)),
                needed=draw(st.integers(1, len(set(keys)))),
                just_true=draw(st.booleans()),
                raises=draw(
                    st.sampled_from(["", "", "try_complete", "on_complete", "on_expiration"])
                ),
                with_future=draw(st.booleans()),
                reactions=small.reactions(draw, kind, _steps(True)),
            )
        )
    steps = draw(st.lists(_steps(False), max_size=25))
    return Program(kind, draw(small.TICKS_MS), tuple(specs), tuple(steps))


@small.examples(200)
@given(_programs())
def test_small_random_programs_go_as_in_the_naive_purgatory(program: Program) -> None:
    difference = first_difference(program)
    assert difference is None, difference
