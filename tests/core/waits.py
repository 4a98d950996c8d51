"""An operation that notes how it ended, and what a purgatory counts."""

from __future__ import annotations

from collections.abc import Callable

from sojourn import DelayedOperation, Purgatory

WAIT_S = 30.0


class Waits(DelayedOperation):
    """Completes once `ready`; notes its endings and when they came."""

    def __init__(self, timeout_ms: int = 100, *, ready: bool = False) -> None:
        super().__init__(timeout_ms)
        self.ready = ready
        self.tries = 0
        self.endings: list[str] = []
        self.then: Callable[[], object] = lambda: None

    def try_complete(self) -> bool:
        self.tries += 1
        return self.ready and self.force_complete()

    def on_complete(self) -> None:
        self.endings.append("on_complete")
        self.then()

    def on_expiration(self) -> None:
        self.endings.append("on_expiration")


def counts(purgatory: Purgatory) -> tuple[int, int, int]:
    return purgatory.watched, purgatory.delayed, len(purgatory.timer)
