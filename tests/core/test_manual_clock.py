"""The clock moved by hand: what falls due runs before `advance` returns, in deadline order."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from random import Random

import pytest

from sojourn import ManualClock, Timer, TimerTask
from sojourn.errors import Closed, OutOfRange


def test_the_plugin_hands_out_a_manual_clock(manual_clock: ManualClock) -> None:
    assert isinstance(manual_clock, ManualClock)
    assert manual_clock.now_ms == 0


@pytest.mark.parametrize("turn", [1, 2])
def test_every_test_gets_a_clock_of_its_own(manual_clock: ManualClock, turn: int) -> None:
    assert manual_clock.now_ms == 0
    manual_clock.advance(turn)


def test_the_clock_moves_only_when_told_to() -> None:
    clock = ManualClock(start_ms=5)
    assert (clock.now_ms, clock.now_ns()) == (5, 5_000_000)
    clock.advance(7)
    assert (clock.now_ms, clock.now_ns()) == (12, 12_000_000)
    clock.advance(0)
    assert clock.now_ms == 12


def test_a_task_runs_on_its_millisecond_and_not_before(manual_clock: ManualClock) -> None:
    ran: list[str] = []
    timer = Timer(manual_clock)
    timer.call_later(50, ran.append, "fifty")
    manual_clock.advance(49)
    assert ran == []
    manual_clock.advance(1)
    assert ran == ["fifty"]


def test_no_thread_is_started(manual_clock: ManualClock) -> None:
    before = threading.enumerate()
    ran_in: list[threading.Thread] = []
    with Timer(manual_clock) as timer:
        for delay_ms in (0, 5, 500):
            timer.call_later(delay_ms, lambda: ran_in.append(threading.current_thread()))
        manual_clock.advance(1_000)
        assert threading.enumerate() == before
    assert threading.enumerate() == before
    assert ran_in == [threading.current_thread()] * 3


def test_a_task_sees_the_clock_at_its_own_deadline(manual_clock: ManualClock) -> None:
    seen: list[tuple[int, int]] = []
    timer = Timer(manual_clock)
    for at_ms in (7, 1, 450, 20, 19, 123_456, 21, 400):
        timer.call_later(at_ms, lambda at_ms=at_ms: seen.append((at_ms, manual_clock.now_ms)))
    manual_clock.advance(1_000_000)
    assert seen == [(at_ms, at_ms) for at_ms in (1, 7, 19, 20, 21, 400, 450, 123_456)]
    assert manual_clock.now_ms == 1_000_000


def test_with_a_coarse_tick_a_task_sees_its_deadline_rounded_up() -> None:
    clock = ManualClock(start_ms=7)
    seen: list[int] = []
    timer = Timer(clock, tick_ms=20)
    timer.call_later(1, lambda: seen.append(clock.now_ms))
    timer.call_later(14, lambda: seen.append(clock.now_ms))
    clock.advance(100)
    assert seen == [20, 40]


def test_timers_on_one_clock_take_turns_in_deadline_order(manual_clock: ManualClock) -> None:
    ran: list[tuple[int, int]] = []
    timers = [
        Timer(manual_clock),
        Timer(manual_clock, wheel_size=2),
        Timer(manual_clock, wheel_size=64),
    ]
    rng = Random(11)
    for _ in range(300):
        at_ms = rng.randint(1, 2_000)
        rng.choice(timers).call_later(
            at_ms, lambda at_ms=at_ms: ran.append((at_ms, manual_clock.now_ms))
        )
    manual_clock.advance(2_000)
    assert len(ran) == 300
    assert [at_ms for at_ms, _ in ran] == sorted(at_ms for at_ms, _ in ran)
    assert all(at_ms == seen_ms for at_ms, seen_ms in ran)


def test_what_a_task_adds_within_the_span_runs_in_the_same_advance(
    manual_clock: ManualClock,
) -> None:
    seen: list[int] = []
    timer = Timer(manual_clock)

    def again() -> None:
        seen.append(manual_clock.now_ms)
        timer.call_later(10, again)

    timer.call_later(10, again)
    manual_clock.advance(55)
    assert seen == [10, 20, 30, 40, 50]
    assert len(timer) == 1


def test_a_task_without_delay_added_by_a_task_runs_next_not_inside_it(
    manual_clock: ManualClock,
) -> None:
    said: list[str] = []
    timer = Timer(manual_clock)

    def outer() -> None:
        said.append("outer begins")
        timer.call_later(0, said.append, "inner")
        said.append("outer ends")

    timer.call_later(5, outer)
    manual_clock.advance(5)
    assert said == ["outer begins", "outer ends", "inner"]


def test_a_task_without_delay_runs_inside_add(manual_clock: ManualClock) -> None:
    ran: list[int] = []
    timer = Timer(manual_clock)
    timer.call_later(0, ran.append, 0)
    timer.call_later(-5, ran.append, -5)
    assert ran == [0, -5]
    assert manual_clock.now_ms == 0


def test_a_task_may_advance_the_clock_itself(manual_clock: ManualClock) -> None:
    said: list[tuple[str, int]] = []
    timer = Timer(manual_clock)

    def say(what: str) -> None:
        said.append((what, manual_clock.now_ms))

    def advancing() -> None:
        say("begins")
        manual_clock.advance(5)
        say("ends")

    timer.call_later(10, advancing)
    timer.call_later(12, say, "at 12")
    timer.call_later(16, say, "at 16")
    manual_clock.advance(20)
    assert said == [("begins", 10), ("at 12", 12), ("ends", 15), ("at 16", 16)]
    assert manual_clock.now_ms == 20


def test_time_does_not_go_back_after_a_task_advanced_further_than_we(
    manual_clock: ManualClock,
) -> None:
    timer = Timer(manual_clock)
    timer.call_later(10, manual_clock.advance, 1_000)
    manual_clock.advance(10)
    assert manual_clock.now_ms == 1_010


def test_a_neighbour_in_the_tick_of_a_task_that_advances_sees_its_own_deadline(
    manual_clock: ManualClock,
) -> None:
    seen: list[int] = []
    timer = Timer(manual_clock)
    timer.call_later(10, manual_clock.advance, 5)
    timer.call_later(10, lambda: seen.append(manual_clock.now_ms))
    timer.call_later(12, lambda: seen.append(manual_clock.now_ms))
    manual_clock.advance(20)
    assert seen == [10, 12]


@pytest.mark.parametrize("error", [ValueError, BaseException])
def test_an_error_of_a_task_does_not_reach_who_advances(
    manual_clock: ManualClock, error: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    ran: list[int] = []
    timer = Timer(manual_clock)

    def failing() -> None:
        raise error("on purpose")

    timer.call_later(5, failing)
    timer.call_later(5, ran.append, 5)
    manual_clock.advance(10)
    assert (ran, timer.errors, manual_clock.now_ms) == ([5], 1, 10)
    assert "failing" in caplog.text


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_in_a_task_reaches_who_advances_and_costs_no_other_task(
    manual_clock: ManualClock, error: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    ran: list[int] = []
    timer = Timer(manual_clock)

    def failing() -> None:
        raise error

    timer.call_later(5, failing)
    timer.call_later(5, ran.append, 5)
    timer.call_later(8, ran.append, 8)
    with pytest.raises(error):
        manual_clock.advance(6)
    assert timer.errors == 1
    assert "failing" in caplog.text
    manual_clock.advance(3)
    assert ran == [5, 8]


@pytest.mark.usefixtures("caplog")
def test_what_an_interrupt_left_ready_runs_at_the_next_advance_with_nothing_else_due(
    manual_clock: ManualClock,
) -> None:
    ran: list[int] = []
    timer = Timer(manual_clock)

    def interrupted() -> None:
        raise KeyboardInterrupt

    timer.call_later(5, interrupted)
    timer.call_later(5, ran.append, 5)
    with pytest.raises(KeyboardInterrupt):
        manual_clock.advance(5)
    manual_clock.advance(1)
    assert ran == [5]


def test_a_clock_with_an_executor_hands_what_is_due_to_it(manual_clock: ManualClock) -> None:
    ran_in: list[str] = []
    with ThreadPoolExecutor(1, thread_name_prefix="mine") as executor:
        timer = Timer(manual_clock, executor=executor)
        timer.call_later(5, lambda: ran_in.append(threading.current_thread().name))
        manual_clock.advance(5)
    assert len(ran_in) == 1
    assert ran_in[0].startswith("mine")


def test_closing_drops_what_waits_and_says_how_many(manual_clock: ManualClock) -> None:
    ran: list[int] = []
    timer = Timer(manual_clock)
    for delay_ms in (5, 50, 500):
        timer.call_later(delay_ms, ran.append, delay_ms)
    manual_clock.advance(5)
    assert timer.close() == 2
    manual_clock.advance(1_000)
    assert ran == [5]
    with pytest.raises(Closed):
        timer.call_later(5, ran.append, 0)


def test_closing_without_dropping_asks_for_the_clock_to_be_advanced_first(
    manual_clock: ManualClock,
) -> None:
    ran: list[int] = []
    timer = Timer(manual_clock)
    timer.call_later(5, ran.append, 5)
    with pytest.raises(OutOfRange, match="advance it past their deadlines first"):
        timer.close(drop=False)
    timer.call_later(6, ran.append, 6)  # it is as open as before
    manual_clock.advance(6)
    assert timer.close(drop=False) == 0
    assert ran == [5, 6]


def test_advance_clock_answers_at_once(manual_clock: ManualClock) -> None:
    timer = Timer(manual_clock)
    timer.add(TimerTask(5))
    assert not timer.advance_clock(3_600_000)
    manual_clock.advance(5)
    assert timer.advance_clock(3_600_000)
    assert not timer.advance_clock(3_600_000)


def test_a_dropped_timer_does_not_hold_up_the_clock(manual_clock: ManualClock) -> None:
    ran: list[int] = []
    Timer(manual_clock)
    kept = Timer(manual_clock)
    kept.call_later(5, ran.append, 5)
    manual_clock.advance(5)
    assert ran == [5]


def test_centuries_pass_at_once(manual_clock: ManualClock) -> None:
    five_centuries_ms = 5 * 3_155_760_000_000
    ran: list[int] = []
    timer = Timer(manual_clock)
    timer.call_later(five_centuries_ms, lambda: ran.append(manual_clock.now_ms))
    manual_clock.advance(five_centuries_ms - 1)
    assert ran == []
    manual_clock.advance(1)
    assert ran == [five_centuries_ms]


@pytest.mark.parametrize("start_ms", [10**15 - 10, -(10**15), -3])
def test_a_timer_works_on_any_clock_that_can_be_made(start_ms: int) -> None:
    clock = ManualClock(start_ms)
    ran: list[int] = []
    timer = Timer(clock)
    timer.call_later(5, lambda: ran.append(clock.now_ms))
    clock.advance(10)
    assert ran == [start_ms + 5]
