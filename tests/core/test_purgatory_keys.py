"""The keys of a purgatory: which are the same, and what a broken one leaves behind."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import pytest

from sojourn import DelayedOperation, ManualClock, Purgatory
from tests import ids
from tests.core.waits import Waits, counts


@dataclass(frozen=True)
class TopicPartition:
    """A key whose hash and equality run Python code."""

    topic: str
    partition: int

    def __hash__(self) -> int:
        return hash((self.topic, self.partition))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TopicPartition) and (
            (self.topic, self.partition) == (other.topic, other.partition)
        )


class Colliding:
    """A key that collides with all others of its kind."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __hash__(self) -> int:
        return 7

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Colliding) and self.name == other.name


@pytest.mark.parametrize(
    "key",
    [
        "a",
        b"a",
        7,
        -1,
        1.5,
        None,
        (),
        ("topic", 3),
        frozenset({1, 2}),
        TopicPartition("topic", 3),
        Colliding("a"),
        object(),
        Waits,
        float("nan"),
        2**200,
    ],
    ids=ids.plain,
)
def test_any_hashable_is_a_key(purgatory: Purgatory, key: Hashable) -> None:
    operation = Waits()
    purgatory.try_complete_else_watch(operation, [key])
    assert counts(purgatory) == (1, 1, 1)
    operation.ready = True
    assert purgatory.check_and_complete(key) == 1
    assert counts(purgatory) == (0, 0, 0)


def test_keys_that_are_equal_are_the_same_key(purgatory: Purgatory) -> None:
    operation = Waits()
    purgatory.try_complete_else_watch(operation, [TopicPartition("t", 1)])
    operation.ready = True
    assert purgatory.check_and_complete(TopicPartition("t", 2)) == 0
    assert purgatory.check_and_complete(TopicPartition("t", 1)) == 1


def test_keys_that_collide_are_kept_apart(purgatory: Purgatory) -> None:
    operations = {name: Waits(ready=False) for name in "abc"}
    for name, operation in operations.items():
        purgatory.try_complete_else_watch(operation, [Colliding(name)])
        operation.ready = True
    assert purgatory.check_and_complete(Colliding("b")) == 1
    assert operations["b"].is_completed
    assert not operations["a"].is_completed
    assert counts(purgatory) == (2, 2, 2)


@pytest.mark.parametrize(
    "keys",
    [
        ["a", "a"],
        ["a", "b", "a", "b"],
        [1, 1.0, True, 2],
        [TopicPartition("t", 1), TopicPartition("t", 1)],
    ],
    ids=ids.plain,
)
def test_the_same_key_twice_counts_once(purgatory: Purgatory, keys: list[Hashable]) -> None:
    operation = Waits()
    purgatory.try_complete_else_watch(operation, keys)
    assert purgatory.watched == len(set(keys))
    tries = operation.tries
    purgatory.check_and_complete(keys[0])
    assert operation.tries == tries + 1
    assert purgatory.cancel_for_key(keys[0]) == [operation]
    assert counts(purgatory) == (0, 0, 0)


@pytest.mark.parametrize("kind", [list, tuple, set, frozenset, iter, dict.fromkeys])
def test_keys_may_come_in_any_iterable(
    purgatory: Purgatory, kind: Callable[[list[str]], list[str]]
) -> None:
    purgatory.try_complete_else_watch(Waits(), kind(["a", "b", "c"]))
    assert purgatory.watched == 3


def test_an_operation_is_watched_on_as_many_keys_as_it_names(purgatory: Purgatory) -> None:
    operation = Waits()
    purgatory.try_complete_else_watch(operation, range(1000))
    assert counts(purgatory) == (1000, 1, 1)
    operation.ready = True
    assert purgatory.check_and_complete(617) == 1
    assert counts(purgatory) == (0, 0, 0)


def test_a_key_that_fails_to_compare_leaves_nothing_behind(purgatory: Purgatory) -> None:
    class Touchy:
        def __init__(self, raises: bool) -> None:
            self.raises = raises

        def __hash__(self) -> int:
            return 7

        def __eq__(self, other: object) -> bool:
            if isinstance(other, Touchy) and other.raises:
                raise ValueError("cannot compare")
            return self is other

    first, key = Waits(), Touchy(False)
    purgatory.try_complete_else_watch(first, [key])
    with pytest.raises(ValueError, match="cannot compare"):
        purgatory.try_complete_else_watch(Waits(), ["b", Touchy(True)])
    assert counts(purgatory) == (1, 1, 1)
    first.ready = True
    assert purgatory.check_and_complete(key) == 1
    assert counts(purgatory) == (0, 0, 0)


class LoudKey:
    """A key whose finaliser calls back."""

    def __init__(self, then: Any) -> None:
        self.then = then

    def __del__(self) -> None:
        self.then()


@pytest.mark.parametrize("how", ["keys", "requires"])
def test_a_keys_finaliser_may_use_the_purgatory(
    purgatory: Purgatory, how: str, manual_clock: ManualClock
) -> None:
    other = DelayedOperation(1_000)
    purgatory.try_complete_else_watch(other, ["other"])
    calls: list[int] = []

    def then() -> None:
        calls.append(purgatory.check_and_complete("other"))
        purgatory.try_complete_else_watch(DelayedOperation(5), ["other"])

    for end in ("force_complete", "cancel", "expire"):
        operation = DelayedOperation(5)
        key = LoudKey(then)
        if how == "keys":
            purgatory.try_complete_else_watch(operation, [key])
        else:
            purgatory.try_complete_else_watch(operation, requires=[(key, 1)])
        del key
        if end == "expire":
            manual_clock.advance(5)
        else:
            getattr(operation, end)()
    assert calls == [0, 0, 0]
    manual_clock.advance(5)
    assert (purgatory.watched, purgatory.delayed) == (1, 1)
