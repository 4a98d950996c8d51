"""A collection at a chosen allocation, and a finaliser that it runs there.

With a threshold below zero CPython starts a collection at every allocation of a tracked object
(up to 3.11; later versions start it at the next safe place, which are fewer). Each is a full one,
because only those empty CPython's free lists, and what comes from a free list starts nothing.
`gc.callbacks` is told before each collection: at the chosen one it plants the garbage.
"""

from __future__ import annotations

import gc
from threading import get_ident
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

NEVER = 0


class _Garbage:
    """In a circle with itself, so that only the collector ends it."""

    def __init__(self, finalise: Callable[[], object]) -> None:
        self._me = self
        self._finalise = finalise

    def __del__(self) -> None:
        self._finalise()


class Collector:
    """Makes calls with a collection at each allocation; the garbage is planted for one of them."""

    def __init__(self) -> None:
        self._thread = 0
        self._seen = 0
        self._at = NEVER
        self._finalise: Callable[[], object] = int
        self._before = gc.get_threshold()
        gc.collect()
        gc.freeze()  # what is here stays, and need not be looked at a thousand times

    def call(self, call: Callable[[], Any], at: int, finalise: Callable[[], object]) -> Any:
        """Make the call, with the finaliser at allocation number `at`; `reached` says if it ran."""
        self._thread = get_ident()
        self._seen = 0
        self._at = at
        self._finalise = finalise
        gc.disable()
        gc.freeze()
        gc.collect()  # of nothing, but it empties the free lists
        gc.callbacks.append(self._on_collection)
        gc.set_threshold(-1, -1, -1)
        gc.enable()
        try:
            return call()
        finally:
            gc.disable()
            gc.set_threshold(*self._before)
            gc.callbacks.remove(self._on_collection)

    @property
    def reached(self) -> bool:
        return self._seen >= self._at

    def tidy(self) -> None:
        """Collect what the calls so far have left behind."""
        gc.unfreeze()
        gc.collect()
        gc.freeze()

    def _on_collection(self, phase: str, _: dict[str, int]) -> None:
        if get_ident() != self._thread:
            return
        if phase == "stop":
            gc.freeze()  # so that the next one is a full one too
        else:
            self._seen += 1
            if self._seen == self._at:
                gc.disable()
                _Garbage(self._finalise)
