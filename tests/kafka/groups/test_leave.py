"""Members leave, and nothing is left of them."""

from __future__ import annotations

import pytest

pytest.importorskip("kio", reason="kio is not installed: pip install sojourn[kafka]")

from sojourn.kafka.groups.group import State
from sojourn.kafka.wire import ErrorCode
from tests.kafka.group_world import Person, World


def test_leaving_in_a_batch_answers_for_each(world: World) -> None:
    first, second = Person(world, "a"), Person(world, "b", instance_id="two")
    world.stable(first, second)
    error, of_members = world.coordinator.leave(
        "g", [(first.member_id, None), ("", "two"), ("", "three"), ("nobody", None)]
    )
    assert error is ErrorCode.none
    assert of_members == [
        ErrorCode.none,
        ErrorCode.none,
        ErrorCode.unknown_member_id,
        ErrorCode.unknown_member_id,
    ]
    assert world.group().state is State.EMPTY
    assert world.waiting == (0, 0)


def test_an_id_that_was_given_out_can_be_given_back(world: World) -> None:
    person = Person(world, "a")
    person.ask_to_join()
    assert person.leave() is ErrorCode.none
    assert world.waiting == (0, 0)


def test_a_member_removed_by_another_has_its_waiting_sync_answered(world: World) -> None:
    first, second = Person(world, "a"), Person(world, "b", instance_id="two")
    world.join_both(first, second)
    waiting = second.sync()
    world.coordinator.leave("g", [("", "two")])
    assert waiting.error is ErrorCode.unknown_member_id


def test_everybody_gone_everything_gone(world: World) -> None:
    people = [Person(world, name) for name in "abc"]
    world.stable(*people)
    for person in people:
        assert person.leave() is ErrorCode.none
    assert world.group().state is State.EMPTY
    assert world.waiting == (0, 0)
    assert len(world.timer) == 0
