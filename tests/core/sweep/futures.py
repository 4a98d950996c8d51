"""Delayed futures: what is called, and what intrudes."""

from __future__ import annotations

import contextlib
from concurrent.futures import Future, InvalidStateError
from functools import partial
from typing import TYPE_CHECKING

from sojourn import DelayedFuture, ManualClock, Purgatory
from tests.core.sweep.cases import Action, Case, Seen, Step, World, crossed

if TYPE_CHECKING:
    from collections.abc import Iterator

_FUTURES = 3
_TIMEOUT_MS = 50


class NaiveFutures(World):
    """The model: which futures are done, and how the wait for them ended."""

    def __init__(self) -> None:
        super().__init__()
        self._now_ms = 0
        self._futures = ["pending"] * _FUTURES
        self._waits = False
        self._deadline_ms: int | None = None
        self._ended = ""

    def watch(self) -> Action:
        return Action(self._watch)

    def _watch(self) -> None:
        self.gap()
        self._waits = True
        self._try()
        self._try()
        now_ms = self._now_ms
        self.gap()
        if self._waits:
            self._deadline_ms = now_ms + _TIMEOUT_MS
        self._try()

    def finish(self, number: int) -> Action:
        return Action(partial(self._finish, number))

    def _finish(self, number: int) -> None:
        self.gap()
        if self._futures[number] == "pending":
            self._futures[number] = "done"
            self._try()

    def cancel(self) -> Action:
        return Action(self._cancel)

    def _cancel(self) -> bool:
        waited = self._waits
        if waited:
            self._end("cancelled")
        return waited

    def advance(self, ms: int) -> Action:
        return Action(partial(self._advance, ms))

    def _advance(self, ms: int) -> None:
        target_ms = self._now_ms + ms
        self.gap()
        if self._deadline_ms is not None and self._deadline_ms <= target_ms:
            self._now_ms = max(self._now_ms, self._deadline_ms)
            self.gap()
            if self._waits:
                self._end("expired")
                for number in range(_FUTURES):
                    self.gap()
                    if self._futures[number] == "pending":
                        self._futures[number] = "cancelled"
        self.gap()
        self._now_ms = max(self._now_ms, target_ms)

    def _try(self) -> None:
        self.gap()
        holds = all(state != "pending" for state in self._futures)
        self.gap()
        if self._waits and holds:
            self._end("completed")

    def _end(self, how: str) -> None:
        self._ended = how
        self._waits = False
        self._deadline_ms = None

    def seen(self) -> Seen:
        waits = int(self._waits)
        return (self._ended, tuple(self._futures), waits, waits)


class RealFutures(World):
    """A delayed future over three, in a purgatory."""

    def __init__(self) -> None:
        super().__init__()
        self._clock = ManualClock()
        self._purgatory = Purgatory(clock=self._clock)
        self._futures: list[Future[None]] = [Future() for _ in range(_FUTURES)]
        self._done = 0
        self._wait = DelayedFuture(self._futures, _TIMEOUT_MS, self._count)
        self._outcome: Future[bool] | None = None

    def watch(self) -> Action:
        return Action(self._watch)

    def _watch(self) -> None:
        self._outcome = self._wait.watch_in(self._purgatory)

    def finish(self, number: int) -> Action:
        return Action(partial(self._finish, self._futures[number]))

    @staticmethod
    def _finish(future: Future[None]) -> None:
        with contextlib.suppress(InvalidStateError):
            future.set_result(None)

    def cancel(self) -> Action:
        return Action(self._wait.cancel)

    def advance(self, ms: int) -> Action:
        return Action(partial(self._clock.advance, ms))

    def _count(self, _: object) -> None:
        self._done += 1

    def seen(self) -> Seen:
        ended = ""
        if self._outcome is not None and self._outcome.done():
            if self._outcome.cancelled():
                ended = "cancelled"
            else:
                ended = "completed" if self._outcome.result() else "expired"
        assert self._done == (ended in ("completed", "expired"))
        return (
            ended,
            tuple(map(_state, self._futures)),
            self._purgatory.watched,
            self._purgatory.delayed,
        )


def _state(future: Future[None]) -> str:
    if not future.done():
        return "pending"
    return "cancelled" if future.cancelled() else "done"


_CALLS: tuple[tuple[tuple[Step, ...], Step], ...] = (
    ((), ("watch",)),
    ((("finish", 0), ("finish", 1), ("finish", 2)), ("watch",)),
    ((("watch",), ("finish", 0)), ("finish", 1)),
    ((("watch",), ("finish", 0), ("finish", 1)), ("finish", 2)),
    ((("watch",), ("finish", 0)), ("advance", 50)),
    ((("watch",),), ("cancel",)),
)
_INTRUSIONS: tuple[tuple[Step, ...], ...] = (
    (("finish", 0), ("finish", 1), ("finish", 2)),
    (("finish", 2),),
    (("cancel",),),
    (("advance", 49),),
)


def cases() -> Iterator[Case]:
    yield from crossed(
        "DelayedFuture",
        RealFutures,
        NaiveFutures,
        (),
        _CALLS,
        _INTRUSIONS,
        (("finish", 0), ("advance", 1), ("advance", 60), ("finish", 1), ("finish", 2)),
        lambda call, intrusion: True,  # for the futures' own locks
    )
