"""The key side: from when requirements hold, what it keeps for that, and what it forgets."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sojourn.replay.progress import Progress
from tests.replay.batches import LEAST_MS, MOST_MS, held, requirements, signals


def moments(candidates: pa.RecordBatch) -> list[tuple[str, int]]:
    return [(row["id"], row["moment_ms"]) for row in candidates.to_pylist()]


# From when a requirement holds, and until when it is held.


@pytest.mark.parametrize(
    ("at_ms", "now_ms", "moment_ms", "waits"),
    [
        (19, None, 20, 0),  # before its submission: final
        (20, None, 20, 0),
        (21, None, 21, 1),  # an earlier signal may come yet
        (25, 24, 25, 1),
        (25, 25, 25, 0),  # now it cannot
        (25, 26, 25, 0),
        (50, None, 50, 1),  # at the deadline
        (51, None, None, 1),  # too late; an earlier one may come
        (51, 49, None, 1),
        (51, 50, None, 0),
        (51, 51, None, 0),
    ],
)
def test_a_requirement_is_held_until_its_moment_is_final(
    at_ms: int, now_ms: int | None, moment_ms: int | None, waits: int
) -> None:
    expected = [] if moment_ms is None else [("a", moment_ms)]
    together = Progress()
    found = together.apply(requirements(("a", "k", 5, 20, 50)), signals(("k", 5, at_ms)), now_ms)
    assert (moments(found), len(together)) == (expected, waits)
    signal_first = Progress()
    signal_first.apply(None, signals(("k", 5, at_ms)), None)
    found = signal_first.apply(requirements(("a", "k", 5, 20, 50)), None, now_ms)
    assert (moments(found), len(signal_first)) == (expected, waits)
    signal_last = Progress()
    signal_last.apply(requirements(("a", "k", 5, 20, 50)), None, None)
    found = signal_last.apply(None, signals(("k", 5, at_ms)), now_ms)
    assert moments(found) == expected
    if now_ms is not None:
        assert len(signal_last) == waits


def test_a_requirement_holds_at_once_on_a_key_that_is_as_far() -> None:
    progress = Progress()
    progress.apply(None, signals(("k", 5, 10)), 10)
    wanted = requirements(("a", "k", 4, 20, 50), ("b", "k", 5, 30, 30), ("c", "k", 6, 20, 50))
    assert moments(progress.apply(wanted, None, None)) == [("a", 20), ("b", 30)]
    assert len(progress) == 1


def test_before_time_has_begun_an_earlier_signal_may_always_come() -> None:
    progress = Progress()
    wanted = requirements(("a", "k", 5, -50, 90))
    assert moments(progress.apply(wanted, signals(("k", 5, -10)), None)) == [("a", -10)]
    assert moments(progress.apply(None, signals(("k", 5, -20)), None)) == [("a", -20)]


def test_the_same_memory_serves_requirements_that_come_and_go() -> None:
    progress = Progress()
    many = [(f"{n:030}", f"key {n:030}", n, 1, 10) for n in range(60)]
    progress.apply(requirements(*many), None, 0)
    progress.apply(None, None, 10)
    sizes = set()
    for now_ms in range(20, 300, 10):
        wanted = requirements(*((*row[:3], now_ms + 1, now_ms + 10) for row in many[:5]))
        progress.apply(wanted, signals((many[0][1], 5, now_ms + 8)), now_ms)
        progress.apply(None, None, now_ms + 9)
        assert len(progress) == 4
        sizes.add(progress.nbytes)
    assert len(sizes) == 1, sizes


def test_candidates_belong_to_their_rows_in_whatever_order_these_come() -> None:
    progress = Progress()
    wanted = requirements(("late", "k", 1, 40, 90), ("early", "k", 1, 20, 90))
    found = progress.apply(wanted, signals(("k", 1, 10)), None)
    assert sorted(moments(found)) == [("early", 20), ("late", 40)]


@pytest.mark.parametrize("reached", [True, False])
def test_a_signal_concerns_those_between_what_was_known_and_what_it_brings(reached: bool) -> None:
    progress = Progress()
    progress.apply(None, signals(("k", 1, 10)) if reached else None, 10)
    progress.apply(requirements(*((f"a{n}", "k", n, 20, 90) for n in range(2, 8))), None, None)

    def concerned(offset: int, at_ms: int) -> list[tuple[str, int]]:
        return sorted(moments(progress.apply(None, signals(("k", offset, at_ms)), None)))

    assert concerned(4, 60) == [("a2", 60), ("a3", 60), ("a4", 60)]
    assert concerned(6, 70) == [("a5", 70), ("a6", 70)]
    assert concerned(3, 50) == [("a2", 50), ("a3", 50)]
    assert concerned(3, 55) == []


def test_at_time_0_what_ends_at_1_still_waits() -> None:
    progress = Progress()
    progress.apply(requirements(("a", "k", 5, -1, 1)), None, 0)
    assert moments(progress.apply(None, signals(("k", 5, 1)), 1)) == [("a", 1)]


@pytest.mark.parametrize(
    ("rows", "kept"),
    [
        ([("k", 5, 10), ("k", 5, 11)], [(0, 5, 10)]),
        ([("k", 5, 11), ("k", 5, 10)], [(0, 5, 10)]),
        ([("k", 5, 10), ("k", 6, 11)], [(0, 5, 10), (0, 6, 11)]),
        ([("k", 5, 10), ("k", 6, 10)], [(0, 6, 10)]),
        ([("k", 6, 10), ("k", 5, 10)], [(0, 6, 10)]),
        ([("k", 6, 12), ("k", 7, 13), ("k", 8, 14), ("k", 7, 11)], [(0, 8, 14), (0, 7, 11)]),
        ([("k", 5, 10), ("other", 5, 11)], [(0, 5, 10), (1, 5, 11)]),
    ],
)
def test_only_signals_that_bring_more_than_earlier_ones_are_held(
    rows: list[tuple[str, int, int]], kept: list[tuple[int, int, int]]
) -> None:
    progress = Progress()
    for row in rows:
        progress.apply(None, signals(row), None)
    assert sorted(held(progress)[1]) == sorted(kept)


def test_a_signal_that_brings_no_more_than_what_was_reached_is_not_held() -> None:
    progress = Progress()
    progress.apply(None, signals(("k", 5, 10)), 10)
    progress.apply(None, signals(("k", 4, 11), ("k", 5, 12)), None)
    assert held(progress)[:2] == [[("k", 5, 12)], []]


def test_signals_that_pass_together_leave_the_largest_offset() -> None:
    progress = Progress()
    progress.apply(requirements(("a", "k", 9, 1, 90)), None, 0)
    progress.apply(None, signals(*(("k", n, 10 + n) for n in range(8))), 1)
    progress.apply(None, None, 50)
    assert held(progress)[:2] == [[("k", 7, 17)], []]
    assert len(progress) == 1


def test_offsets_may_be_less_than_nothing() -> None:
    progress = Progress()
    progress.apply(requirements(("a", "k", -9, 5, 90)), None, 0)
    assert moments(progress.apply(None, signals(("k", -7, 20)), None)) == [("a", 20)]
    assert moments(progress.apply(None, signals(("k", -9, 10)), 50)) == [("a", 10)]
    found = progress.apply(requirements(("b", "k", -8, 60, 90), ("c", "k", -6, 60, 90)), None, 60)
    assert moments(found) == [("b", 60)]


# What is forgotten.


@pytest.mark.parametrize("told_ms", [None, 10, 500, 1009])
@pytest.mark.parametrize(("submitted_ms", "known"), [(1010, True), (1011, False)])
def test_a_key_is_known_for_so_long_after_its_last_news_and_no_longer(
    told_ms: int | None, submitted_ms: int, known: bool
) -> None:
    progress = Progress(forget_keys_after_ms=1000)
    progress.apply(None, signals(("k", 5, 10)), told_ms)
    found = progress.apply(requirements(("a", "k", 5, submitted_ms, 2000)), None, None)
    assert moments(found) == ([("a", submitted_ms)] if known else [])


def test_a_key_may_be_known_only_as_long_as_its_news_are_new() -> None:
    progress = Progress(forget_keys_after_ms=0)
    wanted = requirements(("a", "k", 5, 10, 90), ("b", "k", 5, 11, 90))
    assert moments(progress.apply(wanted, signals(("k", 5, 10)), None)) == [("a", 10)]


@pytest.mark.parametrize("now_ms", [None, 9000])
def test_rows_that_come_together_are_forgotten_in_the_order_of_their_time(
    now_ms: int | None,
) -> None:
    progress = Progress(forget_keys_after_ms=100)
    wanted = requirements(
        ("new life", "k", 3, 5001, 6000),
        ("too much for it", "k", 5, 5001, 6000),
        ("with the signal", "k", 3, 5000, 6000),
        ("waits for it", "k", 3, 4000, 5500),
        ("in time", "k", 5, 110, 120),
        ("old life", "k", 5, 20, 30),
    )
    news = signals(("k", 3, 5000), ("k", 5, 10))
    assert sorted(moments(progress.apply(wanted, news, now_ms))) == [
        ("in time", 110),
        ("new life", 5001),
        ("old life", 20),
        ("waits for it", 5000),
        ("with the signal", 5000),
    ]
    if now_ms is None:
        assert held(progress)[:2] == [[("k", None, 5001)], [(0, 3, 5000)]]


def test_what_was_known_before_is_forgotten_in_the_order_of_time_too() -> None:
    progress = Progress(forget_keys_after_ms=100)
    progress.apply(None, signals(("k", 5, 10)), 10)
    wanted = requirements(("old life", "k", 5, 20, 50))
    found = progress.apply(wanted, signals(("k", 6, 5000)), None)
    assert moments(found) == [("old life", 20)]


def test_one_who_comes_in_the_third_life_of_a_key_sees_nothing_of_the_second() -> None:
    progress = Progress(forget_keys_after_ms=100)
    wanted = requirements(("a", "k", 3, 5200, 6000), ("b", "k", 1, 5200, 6000))
    news = signals(("k", 5, 10), ("k", 3, 5000), ("k", 1, 5150))
    assert moments(progress.apply(wanted, news, None)) == [("b", 5200)]


def test_of_signals_that_come_together_the_last_life_of_a_key_counts() -> None:
    progress = Progress(forget_keys_after_ms=100)
    progress.apply(None, signals(("k", 3, 5050), ("k", 5, 10), ("k", 2, 5000)), None)
    assert held(progress)[:2] == [[("k", None, 5050)], [(0, 2, 5000), (0, 3, 5050)]]
    progress.apply(None, signals(("k", 1, 5200)), 5100)
    assert held(progress)[:2] == [[("k", None, 5200)], [(0, 1, 5200)]]


def test_a_key_is_known_as_long_as_somebody_waits_for_it() -> None:
    for submitted_ms, known in ((600, True), (601, False)):
        progress = Progress(forget_keys_after_ms=100)
        progress.apply(requirements(("a", "k", 6, 20, 500)), signals(("k", 5, 10)), 400)
        progress.apply(None, None, 500)
        assert (len(progress), progress.keys) == (0, 1)
        found = progress.apply(requirements(("b", "k", 5, submitted_ms, 900)), None, None)
        assert moments(found) == ([("b", submitted_ms)] if known else [])


def test_somebody_who_came_and_went_in_one_batch_kept_the_key() -> None:
    for submitted_ms, known in ((600, True), (601, False)):
        progress = Progress(forget_keys_after_ms=100)
        wanted = requirements(("a", "k", 6, 20, 500), ("b", "k", 5, submitted_ms, 900))
        found = progress.apply(wanted, signals(("k", 5, 10)), 1000)
        assert moments(found) == ([("b", submitted_ms)] if known else [])


def test_news_that_come_after_the_last_who_waits_count_longer() -> None:
    progress = Progress(forget_keys_after_ms=100)
    progress.apply(requirements(("a", "k", 6, 20, 500)), signals(("k", 5, 10)), 400)
    progress.apply(None, signals(("k", 1, 550)), 520)
    found = progress.apply(requirements(("b", "k", 5, 650, 900)), None, None)
    assert moments(found) == [("b", 650)]


def test_a_key_that_comes_anew_has_no_past() -> None:
    """Before 1970 as well, where a time is less than nothing."""
    progress = Progress(forget_keys_after_ms=100)
    progress.apply(requirements(("a", "k", 5, -5000, -4990)), None, -4990)
    assert progress.keys == 0
    progress.apply(None, signals(("other", 5, -4000)), -4000)
    assert held(progress)[0] == [("other", 5, -4000)]
    found = progress.apply(requirements(("b", "other", 5, -3900, -3000)), None, None)
    assert moments(found) == [("b", -3900)]


@pytest.mark.parametrize(("told_ms", "keys"), [(1009, 1), (1010, 0)])
def test_keys_are_swept_out_as_soon_as_they_are_forgotten(told_ms: int, keys: int) -> None:
    progress = Progress(forget_keys_after_ms=1000)
    progress.apply(None, signals(("k", 5, 10)), 10)
    progress.apply(None, None, told_ms)
    assert progress.keys == keys
    assert held(progress)[0] == [("k", 5, 10)][:keys]


def test_a_key_with_somebody_or_something_ahead_is_not_swept_out() -> None:
    progress = Progress(forget_keys_after_ms=1000)
    news = signals(("waited for", 5, 10), ("ahead", 5, 10), ("idle", 5, 10))
    progress.apply(requirements(("a", "waited for", 6, 10, 9000)), news, 10)
    progress.apply(None, signals(("ahead", 7, 900)), 20)
    progress.apply(None, None, 1500)
    assert [key for key, *_ in held(progress)[0]] == ["waited for", "ahead"]
    progress.apply(None, None, 2000)
    assert [key for key, *_ in held(progress)[0]] == ["waited for"]
    found = progress.apply(requirements(("b", "waited for", 5, 2001, 9000)), None, None)
    assert moments(found) == [("b", 2001)]


def test_a_key_that_nobody_waits_for_and_that_never_had_news_is_not_kept() -> None:
    progress = Progress()
    wanted = requirements(("a", "k", 5, 10, 20), ("b", "k", 5, 10, 20), ("c", "other", 5, 10, 30))
    progress.apply(wanted, None, 20)
    assert progress.keys == 1
    progress.apply(None, None, 30)
    assert progress.keys == 0


def test_sweeps_come_four_times_as_often_as_keys_are_forgotten() -> None:
    progress = Progress(forget_keys_after_ms=1000)
    progress.apply(None, None, 0)
    assert progress.sweep_ms is None  # there is no key
    progress.apply(None, signals(("k", 5, 10)), 10)
    assert progress.sweep_ms == 250
    progress.apply(None, None, 249)
    assert progress.sweep_ms == 250
    progress.apply(None, None, 250)
    assert progress.sweep_ms == 500
    at_once = Progress(forget_keys_after_ms=0)
    at_once.apply(None, signals(("k", 5, 20)), 10)
    assert at_once.sweep_ms == 11
    never = Progress()
    never.apply(None, signals(("k", 5, 10)), 10)
    assert never.sweep_ms is None


def test_forgetting_goes_on_at_both_ends_of_all_time() -> None:
    progress = Progress(forget_keys_after_ms=1000)
    progress.apply(None, signals(("k", 5, LEAST_MS)), LEAST_MS + 999)
    assert progress.keys == 1
    for submitted_ms, known in ((LEAST_MS + 1000, True), (LEAST_MS + 1001, False)):
        twin = Progress.restore(progress.snapshot())
        wanted = requirements(("a", "k", 5, submitted_ms, MOST_MS))
        assert len(twin.apply(wanted, None, None)) == known
    early = Progress(forget_keys_after_ms=1000)
    early.apply(None, signals(("k", 5, LEAST_MS)), LEAST_MS)
    early.apply(None, None, LEAST_MS + 1000)
    assert early.keys == 0
    late = Progress(forget_keys_after_ms=1000)
    late.apply(None, signals(("k", 5, MOST_MS)), MOST_MS - 10)
    assert late.sweep_ms == MOST_MS
    for_ever = Progress()
    for_ever.apply(None, signals(("k", 5, LEAST_MS)), LEAST_MS)
    found = for_ever.apply(requirements(("a", "k", 5, MOST_MS, MOST_MS)), None, MOST_MS)
    assert moments(found) == [("a", MOST_MS)]


# Told first, told again, told elsewhere.


def test_a_time_to_be_told_first_moves_time_and_forgets() -> None:
    progress = Progress(forget_keys_after_ms=100)
    progress.apply(None, signals(("k", 5, 10)), None, 10)
    assert progress.now_ms == 10
    progress.apply(requirements(("a", "other", 5, 4001, 5000)), None, None, 4000)
    assert (progress.now_ms, progress.keys) == (4000, 1)
    progress.apply(None, None, None, 3000)  # that is past
    assert progress.now_ms == 4000


@pytest.mark.parametrize("forget_ms", [None, 0, 1000])
@pytest.mark.parametrize("now_ms", [None, -250, 0, 1, 30])
def test_a_restored_one_holds_the_same(forget_ms: int | None, now_ms: int | None) -> None:
    progress = Progress(forget_keys_after_ms=forget_ms)
    wanted = requirements(("a", "k", 5, 10, 90), ("b", "gone", 5, -900, -300))
    progress.apply(wanted, signals(("k", 3, -200), ("k", 4, 20), ("other", 1, 40)), -250)
    progress.apply(None, None, now_ms)
    twin = Progress.restore(progress.snapshot())
    assert twin.snapshot() == progress.snapshot()
    assert held(twin) == held(progress)
    for name in ("now_ms", "keys", "sweep_ms"):
        assert getattr(twin, name) == getattr(progress, name), name
    assert repr(twin) == repr(progress)
    for side in (progress, twin):
        side.apply(None, signals(("k", 9, 60)), 50)
        side.apply(None, None, 3000)
    assert held(twin) == held(progress)


@pytest.mark.parametrize("now_ms", [None, 0, 1, 30])
@pytest.mark.parametrize("since_ms", [None, -100, 0])
def test_an_entry_replayed_leaves_the_same_state(now_ms: int | None, since_ms: int | None) -> None:
    news = requirements(("a", "k", 5, 10, 90)), signals(("k", 5, 20))
    one, other = Progress(forget_keys_after_ms=50), Progress(forget_keys_after_ms=50)
    for side in (one, other):
        wanted = requirements(("w", "k", 4, -150, 95))
        side.apply(wanted, signals(("old", 5, -200)), -200)
    one.apply(*news, now_ms, since_ms)
    other.replay(Progress.entry(*news, now_ms, since_ms))
    assert other.snapshot() == one.snapshot()
    assert other.now_ms == one.now_ms
    found = [side.apply(None, signals(("k", 5, 40)), 99) for side in (one, other)]
    assert found[0].equals(found[1])
