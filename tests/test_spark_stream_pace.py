"""How time goes on in a stream."""

from __future__ import annotations

from sojourn.spark.pace import Pace


def after(pace: Pace, latest_ms: int | None, wall_ms: int, watermark_ms: int = 0) -> Pace:
    return pace.on(
        latest_ms,
        watermark_ms=watermark_ms,
        wall_ms=wall_ms,
        delay_ms=10,
        wall_when_idle=True,
    )


def test_a_batch_moves_the_time_of_the_next_one() -> None:
    first = after(Pace(), 100, 0)
    assert first.now_ms is None
    assert after(first, None, 0).now_ms == 90


def test_the_example_at_the_head_of_the_file() -> None:
    pace = after(Pace(), 100, 1000)
    for wall_ms, now_ms in ((1005, 90), (1010, 90), (1012, 92)):
        pace = after(pace, None, wall_ms)
        assert pace.now_ms == now_ms
    assert after(pace, 91, 1013).now_ms == 93  # late, and no news: the wall clock goes on
    pace = after(pace, 101, 1013)
    assert pace.now_ms == 92  # news: it stops
    assert after(pace, None, 1020).now_ms == 92


def test_spark_s_watermark_counts_where_it_is_ahead() -> None:
    pace = after(Pace(), 100, 0)
    assert after(pace, None, 0, watermark_ms=95).now_ms == 95
    assert after(pace, None, 0, watermark_ms=0).now_ms == 90


def test_time_never_goes_back_whatever_the_wall_clock_does() -> None:
    pace = after(Pace(), 100, 5000)
    moments = []
    for wall_ms in (6000, 1000, 7000, 0, 8000):
        pace = after(pace, None, wall_ms)
        moments.append(pace.now_ms)
    assert moments == sorted(moments, key=lambda ms: ms or 0)
    assert moments[0] == 90 + 1000 - 10


def test_before_the_first_row_there_is_no_time() -> None:
    pace = after(after(Pace(), None, 0), None, 10**9)
    assert pace.now_ms is None


def test_the_latest_row_of_the_present_batch_is_not_late() -> None:
    pace = after(Pace(), 100, 0)
    pace = after(pace, 95, 10**6)  # behind the latest, and later than 90: news
    assert pace.now_ms == 90
