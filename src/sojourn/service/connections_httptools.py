"""Connections with the parser in C, where httptools is installed."""

from __future__ import annotations

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from sojourn.service.connections import Guarded


class GuardedHttpTools(Guarded, HttpToolsProtocol):  # type: ignore[misc]
    """Follows the parser's callbacks, to know how much of a request is there."""

    _request = "whole"
    _has_begun = False

    def on_message_begin(self) -> None:
        self._request = "headers"
        self._has_begun = True
        super().on_message_begin()
        self.scope["sojourn.abort"] = self.transport.abort  # type: ignore[typeddict-unknown-key]

    def on_headers_complete(self) -> None:
        self._request = "body"
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._request = "whole"
        super().on_message_complete()

    def _state(self) -> str:
        return self._request

    def _has_nothing(self) -> bool:
        return not self._has_begun
