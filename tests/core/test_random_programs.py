"""Random programs: the purgatory against a naive one, and its two builds against each other."""

from __future__ import annotations

from types import ModuleType

import pytest

import sojourn
from tests.core import naive_progress, naive_purgatory
from tests.core.random_runs import FREE, SHARED, STEPS, UNIQUE, printed
from tests.seeds import seed

# Programs raise on purpose, thousands of times; other tests look at the log.
pytestmark = [
    pytest.mark.usefixtures("quiet_log"),
    pytest.mark.parametrize("model", [naive_purgatory, naive_progress], ids=["keys", "progress"]),
]


def _compare(model: ModuleType, programs: int) -> None:
    for number in range(seed(), seed() + programs):
        for kind in (SHARED, UNIQUE):
            difference = model.first_difference(model.random_program(number, kind, STEPS))
            assert difference is None, f"program {number}, {kind}\n{difference}"


def test_forty_thousand_random_steps_go_as_in_the_naive_model(model: ModuleType) -> None:
    _compare(model, programs=80)


@pytest.mark.nightly
def test_two_million_random_steps_go_as_in_the_naive_model(model: ModuleType) -> None:
    _compare(model, programs=4000)


def test_the_compiled_build_does_what_the_interpreted_one_does(model: ModuleType) -> None:
    if not sojourn.compiled:
        pytest.skip("interpreted: the compiled run compares the two")
    compiled, interpreted = (
        printed(model.__name__, seed(), 60, STEPS, pure=pure) for pure in (False, True)
    )
    assert len(compiled.splitlines()) > 60 * STEPS
    assert compiled == interpreted


def test_the_same_program_goes_the_same_way_twice(model: ModuleType) -> None:
    """Also where deadlines coincide: the order within a tick depends on nothing but the program."""
    for number in range(10):
        program = model.random_program(number, FREE, STEPS)
        assert model.RealRun(program).whole() == model.RealRun(program).whole()
