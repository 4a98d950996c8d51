"""Operations that wait for progress and note how they ended, and what a purgatory counts."""

from __future__ import annotations

from collections.abc import Callable

from sojourn import DelayedOperation, Purgatory


class Notes(DelayedOperation):
    """Writes its endings into a list it shares with others; is never tried."""

    def __init__(self, name: str, notes: list[str], timeout_ms: int = 100) -> None:
        super().__init__(timeout_ms)
        self.name = name
        self.notes = notes
        self.then: Callable[[], object] = lambda: None

    def try_complete(self) -> bool:
        raise AssertionError("an operation that waits for progress is never tried")

    def on_complete(self) -> None:
        self.notes.append(self.name)
        self.then()

    def on_expiration(self) -> None:
        self.notes.append(f"{self.name} expired")


class Wild:
    """A key whose equality is the user's code, and may raise."""

    raises = False

    def __init__(self, name: str) -> None:
        self.name = name

    def __hash__(self) -> int:
        return 7

    def __eq__(self, other: object) -> bool:
        if Wild.raises:
            raise ValueError("no comparing now")
        return isinstance(other, Wild) and self.name == other.name


def counts(purgatory: Purgatory) -> tuple[int, int, int, int]:
    """Watched, delayed, on the timer, known keys; all must be found as they were."""
    return (
        purgatory.watched,
        purgatory.delayed,
        len(purgatory.timer),
        purgatory.metrics().known_keys,
    )
