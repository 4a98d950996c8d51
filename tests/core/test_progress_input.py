"""Requirements and signals as they come in: many at once, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from sojourn import ManualClock, Purgatory
from sojourn.errors import Full, OutOfRange, WrongType
from tests.core.progress_notes import Notes, Wild, counts

# Many at once.


def test_submitting_many_takes_all_rows_or_says_why_not(
    purgatory: Purgatory, notes: list[str]
) -> None:
    purgatory.signal("a", 1)
    rows: list[tuple[Any, ...]] = [
        (Notes("1", notes), [("a", 1)]),
        (Notes("2", notes), [("a", 2), ("b", 1)]),
        (Notes("3", notes), [("a", 2), ("b", 1)], 1),
        (Notes("4", notes), [("a", 1), ("b", 2)], None),
    ]
    assert purgatory.submit_many(iter(rows)) == 1
    assert notes == ["1"]
    assert purgatory.signal("b", 2) == 2
    assert notes == ["1", "3", "4"]
    assert purgatory.submit_many([]) == 0


def test_requirements_of_many_may_come_from_an_iterator(
    purgatory: Purgatory, notes: list[str]
) -> None:
    operations = [Notes(str(n), notes) for n in range(3)]
    rows = ((operation, ((key, 1) for key in ("a", Wild("x")))) for operation in operations)
    assert purgatory.submit_many(rows) == 0
    assert purgatory.waiting() == operations
    assert purgatory.signal_many((key, 1) for key in (Wild("x"), "a")) == 3


def test_one_bad_row_among_many_refuses_them_all(purgatory: Purgatory, notes: list[str]) -> None:
    good = (Notes("good", notes), [("a", 1)])
    bad: list[Any] = [
        None,
        (),
        (Notes("bad", notes),),
        [Notes("bad", notes), [("a", 1)]],
        ("bad", [("a", 1)]),
        (Notes("bad", notes), []),
        (Notes("bad", notes), [("a", 1)], 2),
        (Notes("bad", notes), [("a", 1)], 1, 1),
        (Notes("bad", notes), [("a", 2**63)]),
        (Notes("bad", notes), [([], 1)]),
    ]
    for row in bad:
        with pytest.raises((WrongType, OutOfRange)):
            purgatory.submit_many([good, row])
    assert counts(purgatory) == (0, 0, 0, 0)


def test_when_many_are_too_many_those_before_stay(
    manual_clock: ManualClock, notes: list[str]
) -> None:
    purgatory = Purgatory(clock=manual_clock, max_waiting=2)
    operations = [Notes(str(n), notes) for n in range(4)]
    with pytest.raises(Full, match="2 operations wait"):
        purgatory.submit_many((operation, [("a", 1)]) for operation in operations)
    assert purgatory.waiting() == operations[:2]
    assert purgatory.metrics().refused == 1


def test_one_bad_signal_among_many_sends_none(purgatory: Purgatory) -> None:
    bad: list[Any] = [None, ("b",), ("b", 1, 1), ("b", None), ("b", 2**63), ([], 1)]
    for signal in bad:
        with pytest.raises((WrongType, OutOfRange)):
            purgatory.signal_many([("a", 1), signal])
    assert purgatory.progress("a") is None
    assert counts(purgatory) == (0, 0, 0, 0)


# What is refused.


@pytest.mark.parametrize(
    ("requires", "needed", "says"),
    [
        (3, None, "requires must be a list of (key, offset), got 3"),
        ([], None, "requires is empty"),
        ([("a", 1)], 2, "between 1 and the number of requirements, 1, got 2"),
        ([("a", 1)], 0, "between 1 and the number of requirements, 1, got 0"),
        ([("a", 1)], 1.0, "needed must be an integer, got 1.0"),
        ([3], None, "a requirement must be (key, offset), got 3"),
        (["abc"], None, "a requirement must be (key, offset)"),
        ([("a", 1, 2)], None, "a requirement must be (key, offset)"),
        ([("a", "1")], None, "an offset must be an integer, got '1'"),
        ([("a", 1.0)], None, "an offset must be an integer, got 1.0"),
        ([("a", 2**63)], None, "an offset must fit into 64 bits, got 9223372036854775808"),
        ([("a", -(2**63) - 1)], None, "an offset must fit into 64 bits"),
        ([([], 1)], None, "key [] is not hashable"),
    ],
)
def test_what_cannot_be_waited_for_is_refused(
    purgatory: Purgatory, notes: list[str], requires: Any, needed: Any, says: str
) -> None:
    operation = Notes("it", notes)
    with pytest.raises((WrongType, OutOfRange)) as raised:
        purgatory.try_complete_else_watch(operation, requires=requires, needed=needed)
    assert says in str(raised.value)
    assert counts(purgatory) == (0, 0, 0, 0)
    assert operation.state == "pending"


def test_keys_and_requires_exclude_each_other(purgatory: Purgatory, notes: list[str]) -> None:
    operation = Notes("it", notes)
    with pytest.raises(WrongType, match="not both"):
        purgatory.try_complete_else_watch(operation, ["a"], requires=[("a", 1)])
    with pytest.raises(WrongType, match="needed goes with requires"):
        purgatory.try_complete_else_watch(operation, ["a"], needed=1)
    with pytest.raises(WrongType, match="or give requires"):
        purgatory.try_complete_else_watch(operation)


@pytest.mark.parametrize("offset", [None, "1", 1.5, 2**63, -(2**63) - 1])
def test_a_signal_needs_an_offset_of_64_bits(purgatory: Purgatory, offset: Any) -> None:
    with pytest.raises((WrongType, OutOfRange), match="an offset must"):
        purgatory.signal("a", offset)
    assert counts(purgatory) == (0, 0, 0, 0)
