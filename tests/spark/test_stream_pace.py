"""How time goes on in a stream: SEMANTICS §6, "Time on a stream", sentence by sentence."""

from __future__ import annotations

from sojourn.spark.pace import Pace, Rule

OPERATIONS, SIGNALS, CANCELS = range(3)
LIVE = Rule((OPERATIONS, SIGNALS), delay_ms=10, slowest=True, idle_after_ms=20)
OLD = Rule((OPERATIONS, SIGNALS), delay_ms=10, slowest=False)


def after(
    pace: Pace,
    wall_ms: int,
    operations: int | None = None,
    signals: int | None = None,
    rule: Rule = LIVE,
) -> Pace:
    return pace.on((operations, signals, None), wall_ms, rule)


def test_the_example_at_the_head_of_the_file() -> None:
    pace = Pace()
    for wall_ms, operations, signals, now_ms in (
        (0, 100, 100, 90),
        (1, 101, None, 90),
        (8, None, 108, 91),
        (22, None, None, 98),
        (31, None, None, 101),
    ):
        pace = after(pace, wall_ms, operations, signals)
        assert pace.now_ms == now_ms, wall_ms


def test_a_clock_is_the_latest_time_shown_less_the_delay() -> None:
    pace = after(Pace(), 0, 100, 100)
    assert pace.now_ms == 90
    assert after(pace, 0, 95, 99).now_ms == 90  # earlier rows show nothing new


def test_time_follows_the_slowest_source_so_a_backlog_makes_nobody_late() -> None:
    pace = after(Pace(), 0, 1000, 100)
    assert pace.now_ms == 90
    assert after(pace, 5, 2000, 150).now_ms == 140


def test_a_source_that_has_brought_nothing_for_long_is_idle_and_holds_nobody_up() -> None:
    pace = after(Pace(), 0, 1000, 100)
    assert after(pace, 20, 1005).now_ms == 90
    assert after(pace, 21, 1005).now_ms == 995


def test_a_source_that_never_came_is_waited_for_as_long_as_any_other() -> None:
    pace = after(Pace(), 0, 1000)
    assert pace.now_ms is None
    assert after(pace, 20, 1005).now_ms is None
    assert after(pace, 21, 1005).now_ms == 995


def test_a_source_that_is_not_there_is_not_waited_for() -> None:
    assert after(Pace(), 0, 1000, 1000).now_ms == 990  # no cancels in this stream


def test_when_all_are_idle_time_goes_on_with_the_wall_clock() -> None:
    pace = after(Pace(), 0, 100, 300)
    assert after(pace, 20).now_ms == 90
    assert after(pace, 21).now_ms == 291
    pace = after(pace, 25)
    assert pace.now_ms == 295  # 290 and 5 ms on the wall
    assert after(pace, 1000).now_ms == 1270


def test_the_first_row_in_time_stops_the_wall_clock() -> None:
    pace = after(after(Pace(), 0, 100, 100), 60)
    assert pace.now_ms == 130
    assert after(pace, 70, 131).now_ms == 130
    assert after(pace, 70, 130).now_ms == 140  # it is late, and ends no silence


def test_rows_that_waited_while_the_stream_was_down_are_not_late() -> None:
    pace = after(after(Pace(), 0, 100, 100), 3_600_000, 120)
    assert pace.now_ms == 110  # as far as operations show; not an hour later


def test_a_late_row_moves_no_clock() -> None:
    pace = after(Pace(), 0, 1000)
    pace = after(pace, 21, 1000)
    assert pace.now_ms == 990
    again = after(pace, 22, 1000, 980)
    assert (again.latest_ms, again.news_ms[SIGNALS]) == (pace.latest_ms, 0)


def test_time_never_goes_back_whatever_sources_and_wall_clock_do() -> None:
    pace = after(Pace(), 5000, 100, 100)
    moments = []
    for wall_ms in (6000, 1000, 7000, 0, 8000):
        pace = after(pace, wall_ms)
        moments.append(pace.now_ms)
    assert moments == sorted(moments, key=lambda ms: ms or 0)
    assert moments[0] == 90 + 1000 - 20
    assert after(pace, 8001, 5000, 3100).now_ms == 3090


def test_with_events_alone_time_follows_the_fastest_and_no_wall_clock() -> None:
    pace = after(Pace(), 0, 1000, 100, rule=OLD)
    assert pace.now_ms == 990
    assert after(pace, 10**9, rule=OLD).now_ms == 990


def test_old_rows_can_follow_the_slowest_too_and_then_nobody_is_idle() -> None:
    rule = Rule((OPERATIONS, SIGNALS), delay_ms=10, slowest=True)
    pace = after(Pace(), 0, 1000, rule=rule)
    assert pace.now_ms is None
    assert after(pace, 10**9, signals=100, rule=rule).now_ms == 90


def test_live_rows_can_follow_the_fastest_too() -> None:
    rule = Rule((OPERATIONS, SIGNALS), delay_ms=10, slowest=False, idle_after_ms=20)
    pace = after(Pace(), 0, 1000, rule=rule)
    assert pace.now_ms == 990
    assert after(pace, 25, rule=rule).now_ms == 995


def test_before_the_first_row_there_is_no_time() -> None:
    assert after(after(Pace(), 0), 10**9).now_ms is None


def test_times_at_the_end_of_64_bits_stay_within_them() -> None:
    assert after(Pace(), 0, -(2**63), -(2**63), rule=OLD).now_ms == -(2**63)
