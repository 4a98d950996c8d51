"""Transactions under faults from a seed: what is committed is read once, in order; nothing else."""

from __future__ import annotations

import contextlib

import pytest

pytest.importorskip("kio", reason="kio is not installed: pip install sojourn[kafka]")

from tests.kafka.transaction_world import World
from tests.seeds import seed

FAULTS = 1_000

# It would tell of transactions that take too long, by the hundred.
pytestmark = pytest.mark.usefixtures("quiet_log")


def _run(number: int) -> World:
    with contextlib.closing(World(number)) as world:
        world.run(FAULTS)
        world.heal()
        world.check()
    return world


@pytest.mark.parametrize("run", range(3))
def test_each_committed_record_is_read_once_and_no_aborted_one(run: int) -> None:
    world = _run(seed() + run)
    outcomes = {one.outcome for one in world.transactions}
    assert {"committed", "aborted"} <= outcomes


@pytest.mark.nightly
@pytest.mark.parametrize("run", range(5))
def test_each_committed_record_is_read_once_after_many_faults(run: int) -> None:
    for number in range(10):
        _run(seed() + 1_000 + 10 * run + number)


def test_the_same_seed_gives_the_same_run() -> None:
    one, other = _run(seed()), _run(seed())
    assert one.faults == other.faults
    assert [one.outcome for one in one.transactions] == [two.outcome for two in other.transactions]
