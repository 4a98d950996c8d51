"""Purgatories with one mistake each, as Kafka's once had, to show that the tests of a race see it.

Both are as small as they can be: no timeouts, and every operation has one lock for its tries.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    from sojourn import DelayedOperation


class _Lists:
    """Who watches which key, and each operation's lock."""

    def __init__(self) -> None:
        self._watching: dict[Hashable, list[DelayedOperation]] = {}
        self._locks: dict[DelayedOperation, threading.RLock] = {}

    def _lock(self, operation: DelayedOperation) -> threading.RLock:
        return self._locks.setdefault(operation, threading.RLock())

    def _watch(self, operation: DelayedOperation, keys: Iterable[Hashable]) -> None:
        for key in keys:
            self._watching.setdefault(key, []).append(operation)

    def _on(self, key: Hashable) -> list[DelayedOperation]:
        return [o for o in self._watching.get(key, []) if not o.is_completed]


class ForgetsNews(_Lists):
    """KAFKA-6653: a signal that finds another thread trying goes away and leaves no mark."""

    def try_complete_else_watch(
        self, operation: DelayedOperation, keys: Iterable[Hashable]
    ) -> bool:
        with self._lock(operation):
            if operation.try_complete():
                return True
            self._watch(operation, keys)
            return operation.try_complete()

    def check_and_complete(self, key: Hashable) -> int:
        completed = 0
        for operation in self._on(key):
            lock = self._lock(operation)
            if lock.acquire(blocking=False):
                try:
                    completed += operation.try_complete()
                finally:
                    lock.release()
        return completed


class WaitsForTheTrier(_Lists):
    """KAFKA-8334: the lock is let go of between the two tries, and signals wait for it.

    `between` is called between watching and the second try, where the mistake shows.
    """

    def __init__(self, between: Callable[[], object]) -> None:
        super().__init__()
        self._between = between

    def try_complete_else_watch(
        self, operation: DelayedOperation, keys: Iterable[Hashable]
    ) -> bool:
        with self._lock(operation):
            if operation.try_complete():
                return True
        self._watch(operation, keys)
        self._between()
        with self._lock(operation):
            return operation.try_complete()

    def check_and_complete(self, key: Hashable) -> int:
        completed = 0
        for operation in self._on(key):
            with self._lock(operation):
                completed += operation.try_complete()
        return completed
