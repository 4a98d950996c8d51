"""Endpoints: what can be done with a path, and by whom.

An `Action` is one line of the table in routes.py. Starlette's routes and the OpenAPI document are
both made from it, so what is documented is what is served.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from sojourn.service.errors import Refusal
from sojourn.service.parameters import Parameter, path_value, query_values

# Its answer is an ASGI application, such as a Reply or a response of Starlette's.
Handler = Callable[..., Awaitable[ASGIApp]]


@dataclass(frozen=True)
class Action:
    """A method on a path: who handles it, who may ask, and what it takes and answers."""

    method: str
    path: str
    handler: Handler
    summary: str
    scope: str | None = None  # None: everybody
    parameters: tuple[Parameter, ...] = ()
    body: Any = None  # a JSON schema, for the document
    answers: dict[int, Any] = field(default_factory=dict)  # status: (description, schema)

    @property
    def plain_path(self) -> str:
        """As OpenAPI writes it."""
        return self.path.replace(":path}", "}")


class Endpoint:
    """All actions on one path."""

    def __init__(self, path: str, actions: list[Action]) -> None:
        self.label = actions[0].plain_path
        self._actions: dict[str, tuple[Action, dict[str, Parameter]]] = {}
        for action in actions:
            query = {each.name: each for each in action.parameters if each.place == "query"}
            self._actions[action.method] = action, query
            if action.method == "GET":
                self._actions["HEAD"] = action, query
        self.path = path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["sojourn.route"] = self.label
        candidate = self._actions.get(scope["method"])
        if candidate is None:
            allowed = ", ".join(sorted(self._actions))
            raise Refusal(
                405,
                "method_not_allowed",
                f"{scope['method'][:20]} does not go with {self.label}",
                found=scope["method"][:20],
                do=f"use one of {allowed}",
                headers=[(b"allow", allowed.encode())],
            )
        action, query = candidate
        service = scope["app"].state.service
        if action.scope is not None:
            service.settings.tokens.check(scope["headers"], action.scope)
        values: dict[str, Any] = {}
        if query or scope["query_string"]:
            values = query_values(scope["query_string"], query, service.settings.limits)
        for name, text in scope.get("path_params", {}).items():
            values[name] = path_value(text)
        answer = await action.handler(Request(scope, receive, send), **values)
        await answer(scope, receive, send)
