"""What waits in the cluster: a delayed operation whose callbacks all hold the cluster's agenda.

DelayedRequest    a request whose answer waits
ExpectedRequest   a request that a client has to send in time, such as its next heartbeat
"""

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


class ExpectedRequest(DelayedRequest):
    """Waits until the client has sent it or need not send it any more: `is_over`.

    If that has not come in time, `on_timeout` is called, with the agenda held.
    """

    @property
    def is_over(self) -> bool:
        """Whether there is nothing to wait for any more."""
        raise NotImplementedError

    def on_timeout(self) -> None:
        """The client has not sent it in time."""
        raise NotImplementedError

    def try_complete(self) -> bool:
        return self.is_over

    def on_expiration(self) -> None:
        # The request may have come between the deadline and here: look again.
        if not self.is_over:
            self.on_timeout()
