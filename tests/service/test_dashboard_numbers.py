"""What the dashboard's numbers are made of: counts, percentiles, classes, samples and advice."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from sojourn.durable import Operation
from sojourn.service import findings
from sojourn.service.advice import ClassAdvice, advise
from sojourn.service.classes import MOST_CLASSES, ClassCounts, Classes
from sojourn.service.durations import SLICE_MS, SLICES, Durations
from sojourn.service.late import MOST, Late
from sojourn.service.rates import STEPS, Rates
from sojourn.service.recent import MOST_SAMPLES, PER_SLICE, SAMPLE, Ended, Recent, Sample

NOW_MS = 1_700_000_000_000


def ended(
    status: str,
    waited_ms: int,
    *,
    timeout_ms: int = 1_000,
    condition_ms: int | None = None,
    id: str = "a",
    at_ms: int = NOW_MS,
) -> Ended:
    """One of a sample; `condition_ms` counts from the submission."""
    operation = Operation(
        id, [("k", 1)], timeout_ms, status=status, submitted_ms=at_ms - waited_ms, at_ms=at_ms
    )
    made = Ended(operation)
    if condition_ms is not None:
        made.condition_ms = at_ms - waited_ms + condition_ms
    return made


# Rates.


@pytest.mark.parametrize("seed", range(5))
def test_rates_are_what_a_list_of_all_events_says(seed: int) -> None:
    chance = random.Random(seed)
    rates = Rates(("submitted", "completed"))
    events: list[tuple[int, str, int]] = []
    time_ms = NOW_MS
    for _ in range(2_000):
        time_ms += chance.choice((0, 1, 40, 700, 1_000, 20_000 if chance.random() < 0.02 else 0))
        name, count = chance.choice(("submitted", "completed")), chance.randrange(5)
        rates.add(time_ms, {name: count})
        events.append((time_ms, name, count))
        if chance.random() < 0.02:
            now_ms = time_ms + chance.randrange(3_000)
            time_ms = now_ms
            from_ms, series = rates.by_second(now_ms)
            assert from_ms == (now_ms // 1_000 - STEPS) * 1_000
            for name in ("submitted", "completed"):
                by_second = Counter[int]()
                for at_ms, its_name, count in events:
                    if its_name == name:
                        by_second[at_ms // 1_000] += count
                first = now_ms // 1_000 - STEPS
                assert series[name] == [by_second[first + n] for n in range(STEPS)]
                assert rates.totals[name] == sum(by_second.values())


# Percentiles.


@pytest.mark.parametrize("seed", range(5))
def test_percentiles_are_within_an_eighth_of_the_truth(seed: int) -> None:
    chance = random.Random(seed)
    durations = Durations()
    values: list[tuple[int, float]] = []
    for n in range(200):
        time_ms = NOW_MS + n * 2_500
        some = [chance.lognormvariate(4, 2) for _ in range(chance.randrange(40))]
        durations.add(time_ms, some)
        values += [(time_ms, value) for value in some]
    now_ms = NOW_MS + 199 * 2_500
    for slices in (SLICES, 6):
        after = now_ms // SLICE_MS - slices
        kept = sorted(value for time_ms, value in values if time_ms // SLICE_MS > after)
        result = durations.over(now_ms, slices)
        assert result.count == len(kept)
        assert result.max_ms == pytest.approx(kept[-1], abs=0.001)
        for percent in (50, 99):
            exact = kept[-(-len(kept) * percent // 100) - 1]
            assert exact - 0.001 <= result.percentile_ms(percent) <= exact * 1.13 + 0.001


def test_what_is_older_than_the_window_no_longer_counts() -> None:
    durations = Durations()
    durations.add(NOW_MS, [5])
    assert durations.over(NOW_MS + 299_000 - NOW_MS % SLICE_MS).count == 1
    assert durations.over(NOW_MS + 310_000).count == 0


# Classes.


def test_however_many_classes_take_bounded_room_and_none_is_lost_from_the_sum() -> None:
    classes = Classes()
    ends = {"completed": 2, "expired": 1}
    for n in range(300_000):
        classes.add(NOW_MS, str(n), ends)
    _, shown, others = classes.over(NOW_MS, 20)
    assert len(classes) == MOST_CLASSES
    assert len(shown) == 20
    assert others is not None
    assert sum(each.ended() for each in (*shown, others)) == 900_000


def test_a_class_that_ends_nothing_makes_room() -> None:
    classes = Classes(most=2)
    for name in ("a", "b"):
        classes.add(NOW_MS, name, {"completed": 1})
    classes.add(NOW_MS, "c", {"expired": 1})
    _, shown, others = classes.over(NOW_MS, 20)
    assert {each.name for each in shown} == {"a", "b"}
    assert others is not None
    assert others.count("expired") == 1
    later_ms = NOW_MS + SLICES * SLICE_MS
    classes.add(later_ms, "c", {"expired": 1})
    _, shown, others = classes.over(later_ms, 20)
    assert [each.name for each in shown] == ["c"]
    assert others is None


def test_the_worst_classes_are_shown_among_many_larger_ones() -> None:
    classes = Classes()
    for n in range(50):
        classes.add(NOW_MS, f"large-{n}", {"completed": 1_000})
    classes.add(NOW_MS, "sick", {"expired": 30})
    _, shown, others = classes.over(NOW_MS, 20)
    assert "sick" in {each.name for each in shown}
    assert others is not None
    assert sum(each.ended() for each in (*shown, others)) == 50_030


# Samples.


def operations(count: int, status: str = "completed") -> list[Operation]:
    return [
        Operation(str(n), [("k", 1)], 1_000, status=status, submitted_ms=n, at_ms=n)
        for n in range(count)
    ]


def test_a_class_with_few_ends_is_sampled_whole() -> None:
    sample = Sample(random.Random(1))
    for n in range(100):
        sample.offer(NOW_MS + n * 1_000, operations(5))
    assert len(sample) == 500


def test_each_end_of_ten_seconds_has_the_same_chance_whatever_the_batches() -> None:
    # The first 300 end one by one, the other 300 at once.
    drawn = Counter[bool]()
    chance = random.Random(2)
    one_by_one, at_once = operations(300), operations(300, "expired")
    for _ in range(200):
        sample = Sample(chance)
        for each in one_by_one:
            sample.offer(NOW_MS, [each])
        sample.offer(NOW_MS, at_once)
        assert len(sample) == PER_SLICE
        drawn.update(each.status == "expired" for each in sample.ended())
    share = drawn[True] / drawn.total()
    assert 0.47 < share < 0.53  # 10,000 draws: 0.5 ± 0.005 a standard deviation


def test_samples_take_bounded_room() -> None:
    recent = Recent()
    many, one = operations(200), operations(1)
    for n in range(500):
        recent.offer(NOW_MS + n * SLICE_MS, "busy", many)
        recent.offer(NOW_MS + n * SLICE_MS, f"class-{n}", one)
    busy = recent.sample("busy")
    assert busy is not None
    assert len(busy) <= SAMPLE + PER_SLICE
    kept = [n for n in range(500) if recent.sample(f"class-{n}")]
    assert len(kept) == MOST_SAMPLES - 1
    assert max(kept) > 400  # idle ones have made room


# What holds too late.


def follow(late: Late, requires: list[tuple[str, int]], needed: int | None = None) -> Ended:
    operation = Operation(
        "a", requires, 1_000, needed, status="expired", submitted_ms=NOW_MS - 1_000, at_ms=NOW_MS
    )
    made = Ended(operation)
    late.follow(made, operation, NOW_MS)
    return made


def test_the_moment_at_which_an_expired_operation_could_have_completed_is_found() -> None:
    progress: dict[str, int] = {"a": 1}
    late = Late(progress.get)
    all_of = follow(late, [("a", 1), ("b", 1), ("c", 2)])
    two_of = follow(late, [("a", 1), ("b", 1), ("c", 2)], needed=2)
    assert [key for key, _ in all_of.lacked] == ["b", "c"]
    progress["b"] = 5
    late.look(NOW_MS + 1_000)
    assert two_of.condition_ms == NOW_MS + 1_000
    assert all_of.condition_ms is None
    progress["c"] = 1
    late.look(NOW_MS + 2_000)
    assert all_of.condition_ms is None
    progress["c"] = 2
    late.look(NOW_MS + 3_000)
    assert all_of.condition_ms == NOW_MS + 3_000
    assert len(late) == 0


def test_when_signals_stop_the_rest_are_looked_at_and_the_moment_is_that_of_the_last_signal() -> (
    None
):
    progress: dict[str, int] = {}
    late = Late(progress.get)
    followed = [follow(late, [(str(n), 1)]) for n in range(1_000)]
    late.look(NOW_MS + 1_000)
    assert not late.is_behind
    progress.update((str(n), 1) for n in range(1_000))
    late.look(NOW_MS + 1_100)
    assert late.is_behind
    late.catch_up()
    assert not late.is_behind
    assert {each.condition_ms for each in followed} == {NOW_MS + 1_100}


def test_what_left_its_sample_is_not_followed_for_ever() -> None:
    late = Late(lambda key: None)
    for n in range(MOST + 10):
        follow(late, [("a", 1)]).is_followed = n % 2 == 0
    assert len(late) == MOST // 2 + 10


def test_each_is_looked_at_within_a_second_and_no_more_often_than_needed() -> None:
    looks = Counter[str]()

    def progress(key: str) -> None:
        looks[key] += 1

    late = Late(progress)
    for n in range(1_000):
        follow(late, [(str(n), 1)])
    looks.clear()
    for n in range(100):  # a busy second: a batch each 10 ms
        late.look(NOW_MS + 1_000 + n * 10)
    assert set(looks) == {str(n) for n in range(1_000)}
    assert looks.total() <= 2_100  # the first look, after a long time, is at all


# Advice.


def advice_for(sample: list[Ended]) -> ClassAdvice:
    pytest.importorskip("pyarrow")
    return advise(sample)


def completed(count: int, longest_ms: int, timeout_ms: int) -> list[Ended]:
    return [
        ended("completed", 1 + n * longest_ms // count, timeout_ms=timeout_ms) for n in range(count)
    ]


def test_no_verdict_rests_on_too_little() -> None:
    advice = advice_for(completed(99, 500, 60_000))
    assert advice.verdict == "unknown"
    assert "99 got what they waited for, 100 are needed" in advice.says


def test_a_timeout_that_lets_expire_what_would_have_completed_is_tight() -> None:
    too_late = [ended("expired", 1_000, condition_ms=4_000) for _ in range(10)]
    advice = advice_for(completed(190, 900, 1_000) + too_late)
    assert advice.verdict == "tight"
    assert advice.says == ("with 1 s, 5.0 % expired that got what they waited for later; p99 4 s")
    assert (advice.rests_on, advice.sampled, advice.timeout_ms) == (200, 200, 1_000)


def test_what_never_came_says_nothing_about_the_timeout() -> None:
    never = [ended("expired", 1_000) for _ in range(100)]
    advice = advice_for(completed(200, 900, 1_000) + never)
    assert advice.verdict == "fits"
    assert advice.rests_on == 200


def test_a_timeout_is_called_long_only_after_a_thousand() -> None:
    few = advice_for(completed(999, 500, 60_000))
    assert few.verdict == "fits"
    assert "whether that is too long shows after 1,000" in few.says
    many = advice_for(completed(1_000, 500, 60_000))
    assert many.verdict == "long"
    assert many.says == "p99.9 500 ms, the timeout is 1 min"


def test_several_timeouts_are_said_to_be_several() -> None:
    advice = advice_for(completed(150, 500, 1_000) + completed(50, 500, 2_000))
    assert advice.verdict == "mixed"
    assert "2 different timeouts, 1 s the commonest" in advice.says


# Findings.


def counts(completed: list[int], expired: list[int], name: str = "order") -> ClassCounts:
    def row(last: list[int]) -> list[int]:
        return [0] * (SLICES - len(last)) + last

    none = [0] * SLICES
    return ClassCounts(
        name, {"completed": row(completed), "expired": row(expired), "cancelled": none}
    )


def finding(found: ClassCounts, sample: list[Ended] | None = None) -> dict[str, Any]:
    result = findings.expiries(found, NOW_MS, sample or [])
    assert result is not None
    return result


def test_a_class_that_expires_is_told() -> None:
    result = finding(counts([50, 50, 50, 10, 10], [0, 1, 0, 40, 40]))
    assert result["level"] == "warn"
    assert (result["class"], result["expired"], result["ended"]) == ("order", 81, 251)
    assert finding(counts([5], [25]))["level"] == "bad"


def test_since_when_a_class_expires_is_known_beyond_the_window() -> None:
    classes = Classes()
    start_ms = NOW_MS // SLICE_MS * SLICE_MS

    def after(slices: int, completed: int, expired: int) -> int | None:
        now_ms = start_ms + slices * SLICE_MS + 7
        if completed or expired:
            classes.add(now_ms, "order", {"completed": completed, "expired": expired})
        _, (order,), _ = classes.over(now_ms, 20)
        return order.high_since_ms

    assert after(0, 100, 5) is None
    assert after(1, 10, 5) == start_ms + SLICE_MS
    assert after(2, 0, 0) == start_ms + SLICE_MS  # nothing ended, nothing changed
    for n in range(3, 3 * SLICES):
        assert after(n, 10, 5) == start_ms + SLICE_MS
    assert after(3 * SLICES, 1_000, 5) is None
    assert after(3 * SLICES + 1, 10, 5) == start_ms + (3 * SLICES + 1) * SLICE_MS


@pytest.mark.parametrize(
    "fine",
    [
        counts([95], [5]),  # one in twenty
        counts([1], [18]),  # too few to say
        counts([5, 60, 60, 60, 60, 60, 60], [90, 0, 0, 0, 0, 0, 0]),  # over for a minute
        counts([5, 0, 0, 0, 0, 0, 0], [90, 0, 0, 0, 0, 0, 0]),  # nothing since
    ],
)
def test_a_class_that_is_fine_or_fine_again_is_not_told(fine: ClassCounts) -> None:
    assert findings.expiries(fine, NOW_MS, []) is None


def test_the_key_that_the_expired_lacked_is_named() -> None:
    late = Late(lambda key: None)
    shared = [follow(late, [("stock/mug", n), (f"order-{n}/paid", 1)]) for n in range(10)]
    result = finding(counts([5], [25]), shared)["lacked"]
    assert result == {"key": "stock/mug", "is_kind": False, "expired": 10, "sampled": 10}
    own = [follow(late, [(f"order-{n}/paid", 1)]) for n in range(10)]
    result = finding(counts([5], [25]), own)["lacked"]
    assert result == {"key": "order-#/paid", "is_kind": True, "expired": 10, "sampled": 10}
    different = [follow(late, [(chr(97 + n) * 3, 1)]) for n in range(10)]
    assert "lacked" not in finding(counts([5], [25]), different)


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        ("order-17/paid", "order-#/paid"),
        ("mug2", "mug#"),
        ("order/1a1e1c6e38a-1302/paid", "order/#-#/paid"),
        ("f47ac10b-58cc-c5a1-a567-0e02b2c3d479/eu", "#/eu"),
        ("stock/blue", "stock/blue"),
        ("заказ-7", "заказ-#"),
        ("", ""),
    ],
)
def test_keys_that_differ_by_numbers_and_ids_are_of_one_kind(key: str, kind: str) -> None:
    assert findings.kind_of(key) == kind


def state(**other: Any) -> dict[str, Any]:
    times = {"last_minute": {"p99_ms": 5.0}}
    return {
        "now_ms": NOW_MS,
        "not_ready": None,
        "waiting": 5,
        "max_waiting": None,
        "lateness": times,
        "commit": times,
        "subscribers": [],
    } | other


STUCK = {"name": "mail", "position": 5, "behind": 1_000, "moved_ms": NOW_MS - 60_000, "error": None}


@pytest.mark.parametrize(
    ("other", "kinds"),
    [
        ({}, []),
        ({"not_ready": "the disk is full"}, ["not_ready"]),
        ({"max_waiting": 5}, ["full"]),
        ({"max_waiting": 6}, []),
        ({"lateness": {"last_minute": {"p99_ms": 1_001.0}}}, ["late"]),
        ({"lateness": {"last_minute": {"p99_ms": None}}}, []),
        ({"commit": {"last_minute": {"p99_ms": 201.0}}}, ["commits"]),
        ({"subscribers": [STUCK]}, ["behind"]),
        ({"subscribers": [STUCK | {"behind": 999}]}, []),
        ({"subscribers": [STUCK | {"moved_ms": NOW_MS - 59_999}]}, []),
        ({"subscribers": [STUCK | {"behind": 0, "error": "refused"}]}, ["webhook"]),
    ],
)
def test_what_is_wrong_with_the_service_is_told(other: dict[str, Any], kinds: list[str]) -> None:
    assert [each["kind"] for each in findings.of_service(state(**other))] == kinds
