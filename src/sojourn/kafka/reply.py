"""A reply: the answer to one request, once, now or later and from any thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sojourn._log import log

if TYPE_CHECKING:
    from sojourn.kafka import wire
    from sojourn.kafka.network.connection import Connection


class Reply:
    """Answers one request, once."""

    __slots__ = ("_api", "_connection", "_correlation_id", "_done")

    def __init__(self, connection: Connection, api: wire.Api, correlation_id: int) -> None:
        self._connection = connection
        self._api = api
        self._correlation_id = correlation_id
        self._done = False

    def __call__(self, fields: wire.Fields) -> None:
        """Send the answer. A second answer is logged and not sent."""
        if self._claim():
            self._send(fields)

    def send_last(self, fields: wire.Fields) -> None:
        """Send the answer, then close the connection."""
        if self._claim():
            self._send(fields, is_last=True)

    def send_nothing(self) -> None:
        """Send no answer; the connection goes on with its next request."""
        if self._claim():
            self._connection.send(None)

    def hang_up(self) -> None:
        """Close the connection instead of answering."""
        if self._claim():
            self._connection.close_soon()

    def on_hang_up(self, step: Callable[[], object]) -> None:
        """Do this if the client disconnects before the answer; with the agenda held."""
        self._connection.on_hang_up(step)

    def _send(self, fields: wire.Fields, is_last: bool = False) -> None:
        try:
            frame = self._api.encode(self._correlation_id, fields)
        except Exception:
            log.exception("kafka: the answer to %r cannot be written", self._api)
            self._connection.close_soon()
        else:
            self._connection.send(frame, is_last)

    def _claim(self) -> bool:
        if self._done:
            log.error("kafka: %r was answered twice; the second answer is not sent", self._api)
            return False
        self._done = True
        return True
