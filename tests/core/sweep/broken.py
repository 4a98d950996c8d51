"""Counters with one mistake each, to show that the sweep sees it.

Each adds in two steps with an allocation in between; what comes in there, the worse ones do not
survive.
"""

from __future__ import annotations

import faulthandler
import threading
from typing import TYPE_CHECKING

from tests.core.sweep.cases import Action, Case, Seen, World

if TYPE_CHECKING:
    from collections.abc import Iterator


class Counter(World):
    """Counts, and is right."""

    def __init__(self) -> None:
        super().__init__()
        self._count = 0

    def add(self) -> Action:
        return Action(self._add)

    def _add(self) -> None:
        self._count += 1

    def seen(self) -> Seen:
        return (self._count,)


class Torn(Counter):
    """What is added in between is lost."""

    def _add(self) -> None:
        count = self._count
        self._pause([count])  # an object, and so perhaps a collection: at the latest in this call
        if self._count != count:
            self._on_intrusion()
        self._count = count + 1

    def _pause(self, made: list[int]) -> None:
        pass

    def _on_intrusion(self) -> None:
        pass


class Crashing(Torn):
    """Reads what is not there."""

    def _on_intrusion(self) -> None:
        faulthandler._sigsegv()  # type: ignore[attr-defined]


class Hanging(Torn):
    """Waits for what never comes."""

    def _on_intrusion(self) -> None:
        threading.Event().wait()


def all_cases() -> Iterator[Case]:
    for real in (Counter, Torn, Crashing, Hanging):
        for from_a_thread in (False, True):
            yield Case(real.__name__, real, Counter, (), ("add",), (("add",),), (), from_a_thread)
