"""The re-entrant lock that operations and purgatories are tried and kept under."""

from __future__ import annotations

import threading
from queue import SimpleQueue
from typing import TYPE_CHECKING

import pytest

from sojourn.core.lock import LockedTask

if TYPE_CHECKING:
    from collections.abc import Callable

WAIT_S = 60.0


def _in_threads(number: int, work: Callable[[], object]) -> None:
    start = threading.Barrier(number)

    def run() -> None:
        start.wait(WAIT_S)
        work()

    threads = [threading.Thread(target=run, daemon=True) for _ in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
        assert not thread.is_alive(), "a wake-up was lost"


def _free_for_others(lock: LockedTask) -> bool:
    answers: list[bool] = []

    def look() -> None:
        answers.append(bool(lock._sj_try_acquire()))
        if answers[0]:
            lock._sj_release()

    thread = threading.Thread(target=look)
    thread.start()
    thread.join(WAIT_S)
    return answers[0]


def test_its_own_thread_may_take_it_again() -> None:
    lock = LockedTask(0)
    lock._sj_acquire()
    lock._sj_acquire()
    assert lock._sj_try_acquire()
    for _ in range(3):
        assert not _free_for_others(lock)
        lock._sj_release()
    assert _free_for_others(lock)


def test_another_thread_that_tries_is_told_no_and_does_not_wait() -> None:
    lock = LockedTask(0)
    assert _free_for_others(lock)
    lock._sj_acquire()
    assert not _free_for_others(lock)
    lock._sj_release()
    assert _free_for_others(lock)


def test_all_who_wait_get_it_when_it_is_let_go() -> None:
    lock = LockedTask(0)
    lock._sj_acquire()
    waiting = threading.Semaphore(0)
    got: list[int] = []

    def wait() -> None:
        waiting.release()
        lock._sj_acquire()
        got.append(threading.get_ident())
        lock._sj_release()

    threads = [threading.Thread(target=wait, daemon=True) for _ in range(5)]
    for thread in threads:
        thread.start()
        assert waiting.acquire(timeout=WAIT_S)
    assert got == []
    lock._sj_release()
    for thread in threads:
        thread.join(WAIT_S)
    assert len(set(got)) == 5
    assert _free_for_others(lock)


@pytest.mark.usefixtures("close_interleaving")
def test_one_thread_at_a_time_holds_it() -> None:
    lock = LockedTask(0)
    inside: list[int] = []
    total = 0

    def work() -> None:
        nonlocal total
        for turn in range(30_000):
            if turn % 3 == 0:
                while not lock._sj_try_acquire():
                    pass
            else:
                lock._sj_acquire()
            lock._sj_acquire()  # again
            inside.append(1)
            assert len(inside) == 1
            before = total
            for _ in range(20):
                pass
            total = before + 1
            inside.pop()
            lock._sj_release()
            lock._sj_release()

    _in_threads(4, work)
    assert total == 4 * 30_000
    assert _free_for_others(lock)


@pytest.mark.usefixtures("close_interleaving")
def test_no_wake_up_is_lost_over_twenty_thousand_hand_offs() -> None:
    """Two threads take turns: the one that has the lock lets it go when the other comes for it.

    "Coming" is said just before the lock is asked for, so the release falls before, into or
    after the moment at which the other finds it taken and sets up to wait.
    """
    lock = LockedTask(0)
    coming: SimpleQueue[None] = SimpleQueue()
    taken: SimpleQueue[None] = SimpleQueue()
    hand_offs = 0

    def take() -> None:
        nonlocal hand_offs
        coming.put(None)
        lock._sj_acquire()
        hand_offs += 1
        taken.put(None)

    def let_go() -> None:
        coming.get()
        lock._sj_release()
        taken.get()

    def play(starts: bool) -> None:
        if starts:
            lock._sj_acquire()
        for turn in range(20_000):
            if starts == (turn % 2 == 0):
                let_go()
            else:
                take()
        if starts:
            lock._sj_release()

    players = [
        threading.Thread(target=play, args=(starts,), daemon=True) for starts in (True, False)
    ]
    players[0].start()
    while _free_for_others(lock):
        pass
    players[1].start()
    for player in players:
        player.join(WAIT_S)
        assert not player.is_alive(), "a wake-up was lost"
    assert hand_offs == 20_000
    assert _free_for_others(lock)


@pytest.mark.usefixtures("close_interleaving")
def test_waiting_threads_pass_the_lock_on_however_they_pile_up() -> None:
    """They take the lock two hundred thousand times, so they meet at the gate again and again."""
    lock = LockedTask(0)
    taken = 0

    def work() -> None:
        nonlocal taken
        for _ in range(25_000):
            lock._sj_acquire()
            try:
                taken += 1
                for _ in range(30):  # long enough for the others to find it taken
                    pass
            finally:
                lock._sj_release()

    _in_threads(8, work)
    assert taken == 200_000
