"""The id side: what waits and how it ends, what is remembered of it, and when that is forgotten."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest

from sojourn.errors import OutOfRange
from sojourn.replay.schemas import CANDIDATES
from sojourn.replay.waiting import Waiting
from tests.replay.batches import (
    LEAST_MS,
    MOST_MS,
    batch,
    cancels,
    candidates,
    held,
    submissions,
)


def ends(outcomes: pa.RecordBatch) -> list[tuple[str, str, int, str | None]]:
    return [(r["id"], r["status"], r["at_ms"], r["by_key"]) for r in outcomes.to_pylist()]


# How operations end.


def test_what_ends_together_comes_in_the_order_of_time_new_or_not() -> None:
    waiting = Waiting()
    waiting.apply(submissions(("b", 10, 70), ("d", 10, 90)), None, None, 10)
    news = submissions(("c", 20, 80), ("a", 20, 60), ("e", 20, 101))
    outcomes, _ = waiting.apply(news, None, None, 100)
    assert [(id, at_ms) for id, _, at_ms, _ in ends(outcomes)] == [
        ("a", 60),
        ("b", 70),
        ("c", 80),
        ("d", 90),
    ]
    assert len(waiting) == 1


@pytest.mark.parametrize(
    ("cancels_ms", "ended"),
    [
        ((10,), ("cancelled", 10)),  # at its submission
        ((9,), ("completed", 30)),  # before it: of no account
        ((29, 20, 25), ("cancelled", 20)),
        ((30,), ("completed", 30)),  # a tie goes to completion
    ],
)
def test_the_earliest_cancel_since_the_submission_counts(
    cancels_ms: tuple[int, ...], ended: tuple[str, int]
) -> None:
    for cancels_first in (True, False):
        waiting = Waiting()
        news = cancels(*(("a", at_ms) for at_ms in cancels_ms))
        if cancels_first:
            waiting.apply(None, None, news, None)
            waiting.apply(submissions(("a", 10, 50)), None, None, None)
        else:
            waiting.apply(submissions(("a", 10, 50)), None, None, None)
            waiting.apply(None, None, news, None)
        outcomes, _ = waiting.apply(None, candidates(("a", 0, "k", 30)), None, 60)
        assert [tuple(end[1:3]) for end in ends(outcomes)] == [ended]


def test_an_operation_completes_with_the_last_requirement_that_it_needs() -> None:
    waiting = Waiting()
    waiting.apply(submissions(("a", 10, 90), ("b", 10, 90), needed=2, count=3), None, None, 0)
    waiting.apply(None, candidates(("a", 0, "x", 40), ("b", 2, "z", 20)), None, 5)
    waiting.apply(None, candidates(("a", 2, "w", 40), ("a", 1, "y", 50)), None, 6)
    outcomes, _ = waiting.apply(None, candidates(("b", 1, "y", 91)), None, 100)
    assert ends(outcomes) == [("a", "completed", 40, "w"), ("b", "expired", 90, None)]


def test_each_operation_is_told_its_own_key() -> None:
    waiting = Waiting()
    waiting.apply(submissions(("a", 10, 90), ("z", 10, 90)), None, None, 0)
    waiting.apply(None, candidates(("a", 0, "a", 40), ("z", 0, "z", 50)), None, 5)
    outcomes, _ = waiting.apply(None, None, None, 60)
    assert ends(outcomes) == [("a", "completed", 40, "a"), ("z", "completed", 50, "z")]


def test_the_better_candidate_of_a_requirement_counts() -> None:
    waiting = Waiting()
    waiting.apply(submissions(("a", 10, 90)), candidates(("a", 0, "late", 40)), None, 0)
    waiting.apply(None, candidates(("a", 0, "early", 30)), None, 1)
    waiting.apply(None, candidates(("a", 0, "as early", 30), ("a", 0, "latest", 60)), None, 2)
    outcomes, _ = waiting.apply(None, None, None, 100)
    assert ends(outcomes) == [("a", "completed", 30, "early")]


def test_candidates_that_mean_nothing_here_do_not_hide_those_behind_them() -> None:
    waiting = Waiting()
    waiting.apply(submissions(("other", 10, 50), ("a", 10, 50)), None, None, 5)
    news = candidates(("nobody", 0, "k", 20), ("other", 0, "k", 51), ("a", 0, "k", 50))
    outcomes, _ = waiting.apply(None, news, None, 100)
    assert sorted(ends(outcomes)) == [("a", "completed", 50, "k"), ("other", "expired", 50, None)]


def test_a_candidate_of_one_that_has_ended_is_passed_over_whatever_its_tag() -> None:
    waiting = Waiting()
    waiting.apply(submissions(("a", -20, -10)), None, None, -10)
    outcomes, _ = waiting.apply(None, batch(CANDIDATES, [("a", 0, 0, "k", -5)]), None, 0)
    assert len(outcomes) == 0


@pytest.mark.parametrize("index", [-1, 2, 3])
def test_a_candidate_has_the_index_of_a_requirement(index: int) -> None:
    waiting = Waiting()
    waiting.apply(submissions(("a", 10, 50), count=2), None, None, 5)
    message = f"index of a candidate must be below 2, the number of requirements .* got {index}"
    with pytest.raises(OutOfRange, match=message):
        waiting.apply(None, candidates(("a", index, "k", 20)), None, 6)


def test_next_ms_follows_the_ends_that_are_known() -> None:
    waiting = Waiting()
    assert waiting.next_ms is None
    waiting.apply(submissions(("a", 10, 15), ("b", 10, 18)), None, None, 5)
    assert waiting.next_ms == 15
    waiting.apply(None, None, cancels(("b", 12)), None)
    assert waiting.next_ms == 12
    waiting.apply(None, None, None, 20)
    assert waiting.next_ms is None


# Of several with one id.


def test_of_those_with_one_id_the_earliest_waits_and_the_others_are_told() -> None:
    together, apart = Waiting(), Waiting()
    rows = [("a", 30, 99), ("a", 20, 80), ("a", 20, 81), ("a", 40, 70), ("b", 5, 50)]
    _, told = together.apply(submissions(*rows), None, None, 1)
    found = [told.select(["submitted_ms", "deadline_ms"]).to_pylist()]
    found.append([])
    for row in rows:
        _, told = apart.apply(submissions(row), None, None, 1)
        found[1] += told.select(["submitted_ms", "deadline_ms"]).to_pylist()
    for rejected in found:
        times = sorted(tuple(row.values()) for row in rejected)
        assert times == [(20, 81), (30, 99), (40, 70)]
    for waiting in (together, apart):
        assert (len(waiting), waiting.ids) == (2, 2)
        outcomes, _ = waiting.apply(None, None, None, 200)
        assert [end[::2] for end in ends(outcomes)] == [("b", 50), ("a", 80)]


def test_one_that_was_replaced_leaves_nothing_behind() -> None:
    waiting = Waiting(remember_ms=0)
    news = candidates(("a", 0, "k", 70), ("a", 1, "k", 70))
    waiting.apply(submissions(("a", 30, 99), needed=2, count=2), news, None, 1)
    waiting.apply(submissions(("a", 20, 80), needed=2, count=2), None, None, 2)
    assert [len(part) for part in held(waiting)] == [1, 0, 0, 0]
    outcomes, _ = waiting.apply(None, None, None, 80)
    assert ends(outcomes) == [("a", "expired", 80, None)]
    outcomes, _ = waiting.apply(None, None, None, 200)
    assert (ends(outcomes), waiting.ids) == ([], 0)
    assert waiting.next_ms is None


def test_the_place_of_one_that_was_replaced_serves_one_with_the_same_end() -> None:
    waiting = Waiting()
    waiting.apply(submissions(("a", 30, 80)), None, None, 1)
    waiting.apply(submissions(("a", 20, 90)), None, None, 2)
    waiting.apply(submissions(("b", 30, 80)), None, None, 3)
    outcomes, _ = waiting.apply(None, None, None, 100)
    assert [end[::2] for end in ends(outcomes)] == [("b", 80), ("a", 90)]


def test_an_operation_may_end_at_time_0() -> None:
    waiting = Waiting()
    waiting.apply(submissions(("a", -20, 0)), None, None, -10)
    outcomes, _ = waiting.apply(None, None, None, 0)
    assert ends(outcomes) == [("a", "expired", 0, None)]


def test_the_same_memory_serves_operations_that_come_and_go() -> None:
    """Also those that are replaced, with their candidates and cancels."""
    waiting = Waiting(remember_ms=0)
    sizes = []
    for start_ms in range(0, 200, 10):
        ids = [f"{start_ms:05}", f"{start_ms + 1:05}"]
        rows = submissions(*((id, start_ms + 2, start_ms + 9) for id in ids), count=20)
        earlier = submissions(*((id, start_ms + 1, start_ms + 9) for id in ids), count=20)
        moments = candidates(*((id, n, f"{id} {n}", start_ms + 7) for id in ids for n in (0, 19)))
        news = cancels(*((id, start_ms + 8) for id in ids))
        waiting.apply(rows, moments, None, None)
        waiting.apply(earlier, moments, None, None)
        outcomes, _ = waiting.apply(None, None, news, start_ms + 9)
        assert {by_key for *_, by_key in ends(outcomes)} == {f"{id} 0" for id in ids}
        sizes.append(waiting.nbytes)
    assert len(set(sizes[2:])) == 1, sizes
    assert held(waiting) == [[], [], [], []]


def test_the_places_of_many_that_have_ended_serve_the_next() -> None:
    waiting = Waiting(remember_ms=0)
    waiting.apply(submissions(*((f"{n:03}", n, n) for n in range(40))), None, None, 50)
    size = waiting.nbytes
    waiting.apply(submissions(*((f"{n:03}", n, n) for n in range(60, 70))), None, None, 90)
    assert waiting.nbytes == size


def test_the_same_memory_serves_ids_that_are_remembered_and_forgotten() -> None:
    waiting = Waiting(remember_ms=30)
    sizes = []
    for start_ms in range(0, 500, 10):
        ids = (f"{start_ms + n:05}" for n in range(5))
        rows = submissions(*((id, start_ms + 1, start_ms + 9) for id in ids))
        waiting.apply(rows, None, None, start_ms + 9)
        sizes.append(waiting.nbytes)
        assert waiting.ids == min(len(sizes), 3) * 5
    assert len(set(sizes[10:])) == 1, sizes
    waiting.apply(None, None, None, 1000)
    assert waiting.ids == 0


# What is remembered.


def test_an_id_is_remembered_for_so_long_after_its_end() -> None:
    for now_ms, ids in ((109, 1), (110, 0), (111, 0)):
        waiting = Waiting(remember_ms=100)
        waiting.apply(submissions(("a", 0, 10)), None, None, 5)
        waiting.apply(None, None, None, 20)
        assert (waiting.ids, held(waiting)[3]) == (1, [("a", 110)])
        waiting.apply(None, None, None, now_ms)
        assert (waiting.ids, held(waiting)[3]) == (ids, [("a", 110)][:ids])


def test_one_that_ended_so_long_ago_is_not_remembered_at_all() -> None:
    for now_ms, ids in ((109, 1), (110, 0), (500, 0)):
        waiting = Waiting(remember_ms=100)
        outcomes, _ = waiting.apply(submissions(("a", 0, 10)), None, None, now_ms)
        assert (len(outcomes), waiting.ids) == (1, ids)


def test_ids_are_forgotten_in_the_order_of_their_ends() -> None:
    waiting = Waiting(remember_ms=100)
    rows = [(f"{n:02}", 0, 7 * n % 40 + 1) for n in range(40)]
    waiting.apply(submissions(*rows), None, None, 90)
    assert [until_ms for _, until_ms in held(waiting)[3]] == list(range(101, 141))
    for now_ms in range(100, 141):
        waiting.apply(None, None, None, now_ms)
        assert waiting.ids == 140 - now_ms
        assert waiting.sweep_ms == (now_ms + 1 + 25 if now_ms < 140 else None)


def test_an_id_that_is_used_again_is_remembered_after_its_last_end() -> None:
    waiting = Waiting(remember_ms=100)
    waiting.apply(submissions(("a", 0, 10), ("b", 0, 20)), None, None, 50)
    _, rejected = waiting.apply(submissions(("a", 110, 115)), None, None, None)
    assert len(rejected) == 1
    _, rejected = waiting.apply(submissions(("a", 111, 115)), None, None, None)
    assert len(rejected) == 0
    waiting.apply(None, None, None, 112)  # until 110 it was remembered, and now it waits
    assert (waiting.ids, len(waiting), held(waiting)[3]) == (2, 1, [("b", 120)])
    waiting.apply(None, None, None, 119)
    assert held(waiting)[3] == [("b", 120), ("a", 215)]
    waiting.apply(None, None, None, 214)
    assert waiting.ids == 1
    waiting.apply(None, None, None, 215)
    assert waiting.ids == 0


def test_an_id_that_is_used_again_may_be_forgotten_in_the_same_step() -> None:
    waiting = Waiting(remember_ms=100)
    waiting.apply(submissions(("a", 0, 10)), None, None, 50)
    waiting.apply(submissions(("a", 111, 115)), None, None, 60)
    waiting.apply(None, None, None, 500)
    assert (waiting.ids, waiting.sweep_ms, held(waiting)) == (0, None, [[], [], [], []])


def test_remembering_ends_with_all_time() -> None:
    waiting = Waiting(remember_ms=100)
    rows = [("a", 0, MOST_MS - 100), ("b", 0, MOST_MS - 99), ("c", 0, MOST_MS - 101)]
    waiting.apply(submissions(*rows), None, None, MOST_MS - 50)
    assert dict(held(waiting)[3]) == {"a": MOST_MS, "b": MOST_MS, "c": MOST_MS - 1}
    assert waiting.sweep_ms == MOST_MS
    waiting.apply(None, None, None, MOST_MS)
    assert waiting.ids == 0


def test_at_the_start_of_all_time_ids_are_remembered_as_well() -> None:
    waiting = Waiting(remember_ms=100)
    waiting.apply(submissions(("a", LEAST_MS, LEAST_MS)), None, None, LEAST_MS)
    assert held(waiting)[3] == [("a", LEAST_MS + 100)]
    _, rejected = waiting.apply(submissions(("a", LEAST_MS + 100, 0)), None, None, LEAST_MS + 1)
    assert len(rejected) == 1


def test_ids_are_swept_out_many_at_once() -> None:
    waiting = Waiting(remember_ms=100)
    assert waiting.sweep_ms is None
    waiting.apply(submissions(("a", 0, 10), ("b", 0, 30)), None, None, 40)
    assert waiting.sweep_ms == 10 + 100 + 25


def test_a_day_is_remembered_unless_told_otherwise() -> None:
    waiting = Waiting()
    waiting.apply(submissions(("a", 0, 10)), None, None, 10)
    assert held(waiting)[3] == [("a", 10 + 24 * 60 * 60 * 1000)]


def test_a_cancel_ahead_is_kept_for_an_operation_that_may_come() -> None:
    waiting = Waiting(remember_ms=0)
    waiting.apply(None, None, cancels(("past", 10), ("now", 20), ("ahead", 21), ("ahead", 30)), 20)
    assert (waiting.ids, held(waiting)[2]) == (1, [("ahead", 21), ("ahead", 30)])
    waiting.apply(None, None, None, 21)
    assert (waiting.ids, held(waiting)[2]) == (1, [("ahead", 30)])
    waiting.apply(submissions(("ahead", 25, 90)), None, None, 26)
    outcomes, _ = waiting.apply(None, None, None, 30)
    assert ends(outcomes) == [("ahead", "cancelled", 30, None)]
    assert (waiting.ids, held(waiting)) == (0, [[], [], [], []])


@pytest.mark.parametrize("now_ms", [None, -20, 0])
@pytest.mark.parametrize("at_ms", [-10, 1])
def test_a_cancel_is_ahead_of_the_time_that_it_is(now_ms: int | None, at_ms: int) -> None:
    waiting = Waiting()
    waiting.apply(None, None, cancels(("a", at_ms)), now_ms)
    is_ahead = now_ms is None or at_ms > now_ms
    assert waiting.ids == is_ahead
    waiting.apply(submissions(("a", at_ms, 50)), None, None, None)
    outcomes, _ = waiting.apply(None, None, None, 60)
    ended = ("cancelled", at_ms) if is_ahead else ("expired", 50)
    assert [tuple(end[1:3]) for end in ends(outcomes)] == [ended]


def test_ids_are_counted_once_whatever_is_known_of_them() -> None:
    waiting = Waiting(remember_ms=100)
    assert waiting.ids == 0
    rows = submissions(("ends", 0, 10), ("waits", 0, 90))
    waiting.apply(rows, None, cancels(("ends", 200), ("waits", 200), ("comes", 200)), 20)
    assert waiting.ids == 3
    waiting.apply(None, candidates(("stranger", 0, "k", 50)), None, 30)
    assert waiting.ids == 3
    waiting.apply(None, None, None, 110)  # a cancel of each is still ahead
    assert (waiting.ids, held(waiting)[3]) == (3, [("waits", 190)])
    waiting.apply(None, None, None, 200)
    assert waiting.ids == 0


# Told again, told elsewhere.


@pytest.mark.parametrize("now_ms", [None, -5, 0, 1, 30])
def test_an_entry_replayed_leaves_the_same_state(now_ms: int | None) -> None:
    news = (
        submissions(("a", 0, 90), ("b", 0, 1), ("a", 5, 9), ("c", 40, 50), ("c", 39, 60)),
        candidates(("a", 0, "k", 30), ("c", 0, "k", 45)),
        cancels(("b", 50), ("c", 42)),
    )
    one, other = Waiting(remember_ms=20), Waiting(remember_ms=20)
    one.apply(*news, now_ms)
    other.replay(Waiting.entry(*news, now_ms))
    assert other.snapshot() == one.snapshot()
    assert (other.now_ms, other.next_ms) == (one.now_ms, one.next_ms)
    told = [ends(side.apply(None, None, None, 70)[0]) for side in (one, other)]
    assert told[0] == told[1]
    with pytest.raises(OutOfRange, match="now_ms must be ≥ 70, got 69"):
        other.replay(Waiting.entry(None, None, None, 69))


@pytest.mark.parametrize("now_ms", [None, 0, 15])
def test_a_restored_one_holds_the_same(now_ms: int | None) -> None:
    waiting = Waiting(remember_ms=50)
    rows = submissions(("gone", -9, -1), ("a", 0, 90), ("b", 3, 80), needed=2, count=3)
    news = candidates(("b", 2, "", 70), ("b", 0, "k", 60), ("gone", 0, "k", -2))
    waiting.apply(rows, news, cancels(("b", 75), ("later", 99)), -1)
    waiting.apply(None, None, None, now_ms)
    twin = Waiting.restore(waiting.snapshot())
    assert twin.snapshot() == waiting.snapshot()
    assert held(twin)[1] == [(1, 0, "k", 60), (1, 2, "", 70)]
    for name in ("now_ms", "ids", "sweep_ms", "next_ms"):
        assert getattr(twin, name) == getattr(waiting, name), name
    assert re.fullmatch(r"<Waiting now_ms=-?\d+ operations=2>", repr(twin))
    assert twin.pending().equals(waiting.pending())
    for side in (waiting, twin):
        outcomes, _ = side.apply(None, None, None, 100)
        assert ends(outcomes) == [("b", "completed", 70, ""), ("a", "expired", 90, None)]
    assert held(twin) == held(waiting)
