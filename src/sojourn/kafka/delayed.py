"""A request that waits: a delayed operation whose callbacks all run on the cluster's agenda."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sojourn.core.operation import DelayedOperation

if TYPE_CHECKING:
    from sojourn.kafka.agenda import Agenda


class DelayedRequest(DelayedOperation):
    """Waits like any operation; `try_complete`, `on_complete` and `on_expiration` hold the agenda.

    Whoever signals progress holds it, too: `on_complete` runs in that thread.
    """

    def __init__(self, timeout_ms: int, agenda: Agenda) -> None:
        super().__init__(timeout_ms, lock=agenda)
        self.agenda = agenda

    def run(self) -> None:
        """Expire, with the agenda held."""
        with self.agenda:
            super().run()
