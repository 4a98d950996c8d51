"""Very many that fall due together: some with each batch, and nobody waits for all of them."""

from __future__ import annotations

from typing import Any

import pytest

from sojourn.durable.machine import Machine
from sojourn.durable.plan import Batch, Plan
from sojourn.durable.submissions import checked_submission


def carry_out(machine: Machine, time_ms: int, **commands: Any) -> tuple[Batch, Plan]:
    batch = Batch(**commands)
    plan = machine.plan(time_ms, batch, {})
    machine.apply(plan)
    return batch, plan


@pytest.fixture
def machine() -> Machine:
    """Ten operations that are overdue from 11 on; three expire with a batch."""
    machine = Machine(expire_at_once=3)
    rows = [checked_submission(f"{n}", [("k", 1)], 9 - n % 3) for n in range(10)]
    carry_out(machine, 1, submissions=rows)
    return machine


def test_a_batch_takes_some_of_them_by_deadline_and_submission(machine: Machine) -> None:
    expired = []
    for time_ms in range(11, 16):
        _, plan = carry_out(machine, time_ms)
        expired += [(outcome.id, outcome.at_ms, outcome.status) for outcome in plan.outcomes]
        assert len(plan.outcomes) <= 3
    assert expired == [
        (id, at_ms, "expired")
        for at_ms, ids in ((8, "258"), (9, "147"), (10, "0369"))
        for id in ids
    ]
    assert machine.next_ms is None


def test_what_is_overdue_and_not_told_can_do_nothing_but_expire(machine: Machine) -> None:
    batch, plan = carry_out(machine, 11, signals=[("k", 1)], cancels=["9", "0"])
    assert [answer.verdict for answer in batch.cancel_answers] == ["ended", "ended"]
    assert [(o.id, o.status, o.at_ms) for o in plan.outcomes] == [
        ("2", "expired", 8),
        ("5", "expired", 8),
        ("8", "expired", 8),
        ("0", "expired", 10),
        ("9", "expired", 10),
    ]
    waiting = machine.get("1")
    assert waiting is not None
    assert waiting.status == "waiting"
    row = checked_submission("1", [("k", 1)], 8)
    batch, plan = carry_out(machine, 12, submissions=[row], signals=[("k", 2)])
    assert batch.submission_answers[0].verdict == "duplicate"
    assert batch.submission_answers[0].operation == plan.outcomes[0]
    assert [outcome.id for outcome in plan.outcomes] == ["1", "4", "7"]
    _, plan = carry_out(machine, 13)
    assert [outcome.id for outcome in plan.outcomes] == ["3", "6"]
    assert (len(machine), machine.next_ms) == (0, None)


def test_a_plan_that_was_not_written_is_made_again(machine: Machine) -> None:
    first = machine.plan(11, Batch(), {})
    again = machine.plan(12, Batch(), {})
    assert first.outcomes == again.outcomes
    machine.apply(again)
    assert len(machine) == 7
    assert machine.next_ms == 13


def test_cancelling_all_that_is_left_leaves_nothing_to_do(machine: Machine) -> None:
    carry_out(machine, 11, cancels=[f"{n}" for n in range(10)])
    assert len(machine) == 0
    _, plan = carry_out(machine, 12)
    assert plan.outcomes == []
    assert machine.next_ms is None
