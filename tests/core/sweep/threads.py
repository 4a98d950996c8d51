"""The timer on the system clock, with its two threads: what is called, and what intrudes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from sojourn import Timer
from tests.core.sweep.cases import Action, Case, Seen, Step
from tests.core.sweep.timers import NaiveTimers, Tasks

if TYPE_CHECKING:
    from collections.abc import Iterator

_LONG_MS = 10_000_000  # for ever, as far as a test goes


class NaiveThreads(NaiveTimers):
    """The model: no time passes, and what is due has run by the time that the timer is closed."""

    def __init__(self) -> None:
        super().__init__(at_once=False, wheel_size=20)

    def seen(self) -> Seen:
        return (len(self._timer), sorted(name for _, name in self._timer.ran))


class RealThreads(Tasks):
    """Tasks by name in a timer on the system clock."""

    def __init__(self) -> None:
        super().__init__()
        self._timer: Timer = Timer()
        self._ran: list[int] = []

    def call_later(self, name: int, delay_ms: int) -> Action:
        return Action(partial(self._timer.call_later, delay_ms, self._run, name), lambda _: None)

    def seen(self) -> Seen:
        assert self._timer.errors == 0
        return (len(self._timer), sorted(self._ran))

    def close(self) -> None:
        self._timer.close()

    def _run(self, name: int) -> None:
        self._ran.append(name)


_RUNNING: tuple[Step, ...] = (("add", 1, _LONG_MS), ("add", 2, 2 * _LONG_MS))
_CALLS: tuple[Step, ...] = (
    ("add", 5, _LONG_MS // 2),  # earlier than the others
    ("call_later", 5, 0),
    ("cancel", 2),
    ("close_timer",),
)
_INTRUSIONS: tuple[tuple[Step, ...], ...] = (
    (("add", 6, _LONG_MS), ("add", 7, 0)),
    (("cancel", 1),),
    (("close_timer",),),
)


def cases() -> Iterator[Case]:
    for before, call in (((), _CALLS[0]), *((_RUNNING, call) for call in _CALLS)):
        for intrusion in _INTRUSIONS:
            if not before and intrusion[0][0] == "cancel":
                continue
            # Another thread would wait for the one that starts the timer's threads, or closes it.
            waits = not before or call[0] == intrusion[0][0] == "close_timer"
            for from_a_thread in (False,) if waits else (False, True):
                yield Case(
                    "Timer with threads" if before else "Timer that starts its threads",
                    RealThreads,
                    NaiveThreads,
                    before,
                    call,
                    intrusion,
                    (("size",), ("close_timer",)),
                    from_a_thread,
                )
