"""Random programs of waits for progress: every ending comes up, and small ones shrink."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core import small_programs as small
from tests.core.naive_progress import (
    KEYS,
    LEAST,
    MOST,
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
    endings = dict.fromkeys(("completed", "expired", "cancelled", "errors", "refused"), 0)
    seen = dict.fromkeys(("AlreadyWaiting", "Closed", "Full", "-> True", "-> (None, ["), 0)
    for number in range(15):
        for kind in (SHARED, UNIQUE):
            run = RealRun(random_program(number, kind, STEPS))
            log = run.whole()
            for ending, total in zip(endings, run.totals(), strict=False):
                endings[ending] += total
            for what in seen:
                seen[what] += sum(what in line for line in log)
    assert min(endings.values()) > 50, endings
    assert min(seen.values()) > 50, seen


# Small programs, which shrink.


def _steps(reacting: bool) -> st.SearchStrategy[Step]:
    pairs = st.tuples(st.integers(0, 1), _offsets())
    signals = st.tuples(st.just("signal"), pairs)
    keys = st.tuples(st.sampled_from(["cancel_key", "look"]), st.integers(0, 1))
    if reacting:
        return st.one_of(small.NUMBERED, signals, keys)
    some = st.lists(st.integers(0, small.OPERATIONS - 1), max_size=3)
    many = st.tuples(st.just("submit_many"), some)
    close: st.SearchStrategy[Step] = st.just(("close", None))
    return st.one_of(small.NUMBERED, signals, keys, many, small.ADVANCES, close)


def _offsets() -> st.SearchStrategy[int]:
    return st.one_of(st.integers(-1, 3), st.sampled_from([LEAST, MOST]))


@st.composite
def _programs(draw: st.DrawFn) -> Program:
    kind = draw(st.sampled_from([SHARED, UNIQUE]))
    specs = []
    for _ in range(small.OPERATIONS):
        pairs = st.lists(st.tuples(st.integers(0, 1), _offsets()), min_size=1, max_size=6)
        requires = tuple(draw(pairs))
        specs.append(
            Spec(
                timeout_ms=draw(small.TIMEOUTS_MS),
                requires=requires,
                needed=draw(st.one_of(st.none(), st.integers(1, len(requires)))),
                raises=draw(st.sampled_from(["", "", "on_complete", "on_expiration"])),
                with_future=draw(st.booleans()),
                reactions=small.reactions(draw, kind, _steps(True)),
            )
        )
    return Program(
        kind,
        draw(small.TICKS_MS),
        draw(st.sampled_from([None, 1, 2])),
        draw(st.sampled_from([None, 0, 19])),
        draw(st.booleans()),
        tuple(specs),
        tuple(draw(st.lists(_steps(False), max_size=25))),
    )


@small.examples(150)
@given(_programs())
def test_small_random_programs_go_as_in_the_naive_model(program: Program) -> None:
    difference = first_difference(program)
    assert difference is None, difference


def test_equal_keys_are_one_key_whatever_their_objects() -> None:
    """Programs make their keys anew each time: that must be what they think it is."""
    for make in KEYS:
        assert make() == make()
        assert hash(make()) == hash(make())
    assert len({make() for make in KEYS}) == len(KEYS)
