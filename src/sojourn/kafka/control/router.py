"""The control port's router: a method, a path and a body in, a status and JSON out."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from sojourn.errors import Closed, SojournError, TimedOut
from sojourn.kafka.control.call import Call, ControlError
from sojourn.kafka.control.routes import ROUTES, add_fault, create_topic
from sojourn.kafka.refusal import Refused
from sojourn.kafka.wire import ErrorCode

if TYPE_CHECKING:
    from sojourn.kafka.cluster import Cluster


class Answer(NamedTuple):
    """An HTTP status, and the JSON body."""

    status: int
    body: Any


class Router:
    """Answers calls, each on its own thread."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.clock_lock = threading.Lock()  # one call at a time moves the clock
        self.is_closed = False

    def answer(self, method: str, target: str, body: bytes) -> Answer:
        """Answer the call, with an error if it is refused."""
        try:
            split = urlsplit(target)
            handler, path = self._route(method, split.path)
            values: dict[str, Any] = dict(parse_qsl(split.query, keep_blank_values=True))
            call = Call(self, path, values | _object(body))
            answer = handler(call)
            call.check_all_taken()
        except ControlError as error:
            return Answer(error.status, error.body)
        except SojournError as error:
            refusal = _control_error(error)
            return Answer(refusal.status, refusal.body)
        return Answer(201 if handler in (add_fault, create_topic) else 200, answer)

    def _route(self, method: str, path: str) -> tuple[Callable[[Call], Any], dict[str, str]]:
        methods = []
        parts = path.split("/")
        for route_method, pattern, handler in ROUTES:
            names = _match(pattern.split("/"), parts)
            if names is not None:
                if route_method == method:
                    return handler, names
                methods.append(route_method)
        if methods:
            raise ControlError(
                405, "bad_method", f"{path} takes {', '.join(methods)}, got {method}"
            )
        raise ControlError(
            404, "not_found", f"there is no path {path[:200]}", "GET / lists the paths"
        )


def _match(pattern: list[str], parts: list[str]) -> dict[str, str] | None:
    if len(pattern) != len(parts):
        return None
    names = {}
    for wanted, part in zip(pattern, parts, strict=True):
        if wanted.startswith("{"):
            names[wanted[1:-1]] = unquote(part)
        elif wanted != part:
            return None
    return names


def _object(body: bytes) -> dict[str, Any]:
    if not body.strip():
        return {}
    try:
        parsed = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ControlError(400, "bad_json", f"the body is not JSON: {error}") from None
    if not isinstance(parsed, dict):
        raise ControlError(
            400, "bad_json", "the body must be a JSON object", found=repr(parsed)[:100]
        )
    return parsed


def _control_error(error: SojournError) -> ControlError:
    message = str(error)
    if isinstance(error, TimedOut):
        return ControlError(504, "timed_out", message, "wait longer: timeout_ms")
    if isinstance(error, Refused):
        is_taken = error.code is ErrorCode.topic_already_exists
        return ControlError(409 if is_taken else 400, error.code.name, message)
    if isinstance(error, Closed):
        return ControlError(503, "closed", message, "start the cluster again")
    return ControlError(400, "bad_value", message)
