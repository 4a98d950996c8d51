"""The gate: every request passes it, in and out.

In: is it for us, and may it come from there? Out: it is counted, and whatever was raised becomes
JSON. A bug becomes a 500 with an id, under which the log has the traceback; clients never see one.
"""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sojourn._log import log
from sojourn.errors import Closed, SojournError
from sojourn.origins import Origins
from sojourn.service.errors import Refusal, refusal_of

if TYPE_CHECKING:
    from sojourn.service.service import Service


class Gate:
    """An ASGI application around the router."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app = app
        self._service = service
        self._origins = Origins(service.settings.host_names)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        began_s = time.perf_counter()
        status = 0

        async def watched_send(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            objection = self._origins.objection(scope["method"], scope["headers"])
            if objection is not None:
                raise Refusal(*objection[:3], found=objection.found, do=objection.do)
            # Routed as it was sent: in /a%2Fb/c the first slash belongs to the name.
            raw_path: bytes = scope.get("raw_path") or quote(scope["path"]).encode()
            scope["path"] = raw_path.partition(b"?")[0].decode("latin-1")
            await self._app(scope, receive, watched_send)
        except ClientDisconnect:
            status = status or 499  # as nginx writes it: nobody is there to read it
        except Exception as error:
            refusal = self._refusal(error, scope)
            if status:  # the answer had begun: all that is left is to break it off
                log.warning("an answer was broken off: %s", refusal.message)
                raise
            await refusal.reply()(scope, receive, watched_send)
        finally:
            self._service.reserved_bytes -= scope.get("sojourn.reserved", 0)
            elapsed_s = time.perf_counter() - began_s
            self._service.counts.on_request(
                scope["method"],
                scope.get("sojourn.route", "none"),
                status,
                elapsed_s,
                "sojourn.waited" in scope,
            )

    def _refusal(self, error: Exception, scope: Scope) -> Refusal:
        if isinstance(error, Refusal):
            return error
        if isinstance(error, Closed) and not self._service.is_closing:
            return Refusal(503, "unavailable", str(error), do="start the service again")
        if isinstance(error, SojournError):
            return refusal_of(error)
        if isinstance(error, HTTPException) and error.status_code == 404:
            return Refusal(
                404,
                "not_found",
                "there is nothing under this path",
                found=scope["path"][:200],
                do="see /openapi.json for what there is",
            )
        if isinstance(error, HTTPException):
            return Refusal(error.status_code, "bad_request", str(error.detail))
        number = secrets.token_hex(8)
        log.error(
            "error %s in %s %s", number, scope["method"], scope.get("sojourn.route"), exc_info=error
        )
        return Refusal(
            500,
            "internal",
            f"a bug in the service; its log has the details under {number}",
            do="report it, with the log",
            more={"id": number},
        )
