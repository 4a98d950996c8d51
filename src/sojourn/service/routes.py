"""Routes: the one table of what is served. Starlette's routes and /openapi.json come from it."""

from __future__ import annotations

from starlette.requests import Request
from starlette.routing import BaseRoute, Route

from sojourn.service import (
    commands,
    dashboard,
    events,
    health,
    keys,
    operations,
    outcomes,
    subscriptions,
)
from sojourn.service.endpoints import Action, Endpoint
from sojourn.service.openapi import document
from sojourn.service.parameters import Parameter
from sojourn.service.replies import Reply, encode
from sojourn.service.schemas import one_or_many, ref
from sojourn.service.tokens import ADMIN, READ, WRITE

_ID = Parameter("id", "path", "The operation's id, percent-encoded.", "string")
_KEY = Parameter("key", "path", "The key, percent-encoded.", "string")
_NAME = Parameter("name", "path", "The subscription's name, percent-encoded.", "string")
_WAIT_MS = Parameter(
    "wait_ms", "query", "Wait so long if there is nothing to tell yet.", default=0, limit="wait_ms"
)
_AFTER = Parameter("after", "query", "The number of the last outcome that you have.", default=0)
_LIMIT = Parameter("limit", "query", "So many at most.", default=1000, least=1, limit="outcomes")

_OPERATION = ("The operation.", ref("Operation"))
_SUBSCRIPTION = ("The subscription.", ref("Subscription"))
_COMMAND_ANSWERS = {
    200: ("It was so already; or, for an array, the answers.", ref("AnswerOrAnswers")),
    201: ("Accepted: it is on disk.", ref("Answer")),
}


async def _openapi(request: Request) -> Reply:
    """GET /openapi.json."""
    return Reply(200, encode(document(ACTIONS, request.app.state.service.settings.limits)))


ACTIONS: tuple[Action, ...] = (
    Action(
        "POST",
        "/v1/operations",
        commands.submit,
        "Let operations wait, one or many.",
        WRITE,
        body=one_or_many("Submit"),
        answers=_COMMAND_ANSWERS,
    ),
    Action(
        "POST",
        "/v1/signals",
        commands.signal,
        "Say how far keys have come, one or many.",
        WRITE,
        body=one_or_many("Signal"),
        answers=_COMMAND_ANSWERS,
    ),
    Action(
        "POST",
        "/v1/cancels",
        commands.cancel,
        "Cancel operations, one or many.",
        WRITE,
        body=one_or_many("Cancel"),
        answers=_COMMAND_ANSWERS | {404: ("It is not known.", ref("Answer"))},
    ),
    Action(
        "GET",
        "/v1/operations",
        operations.waiting,
        "Who waits on a key; without one, who has waited longest.",
        READ,
        (Parameter("key", "query", "The key.", "string"), _LIMIT),
        answers={200: ("Operations that wait.", ref("Operations"))},
    ),
    Action(
        "GET",
        "/v1/outcomes",
        outcomes.page,
        "Outcomes in order.",
        READ,
        (_AFTER, _LIMIT, _WAIT_MS),
        answers={200: ("A page of the feed.", ref("Outcomes"))},
    ),
    Action(
        "GET",
        "/v1/outcomes/stream",
        events.stream,
        "Outcomes as server-sent events.",
        READ,
        (_AFTER, events.LAST_EVENT_ID),
        answers={200: ("Events.", "text/event-stream")},
    ),
    Action(
        "GET",
        "/v1/operations/{id:path}",
        operations.get,
        "An operation, once it has ended if wait_ms allows.",
        READ,
        (_ID, _WAIT_MS),
        answers={200: _OPERATION},
    ),
    Action(
        "GET",
        "/v1/keys/{key:path}",
        keys.get,
        "How far a key has come, and how many wait on it.",
        READ,
        (_KEY,),
        answers={200: ("The key.", ref("Key"))},
    ),
    Action(
        "GET",
        "/v1/subscriptions",
        subscriptions.every,
        "All subscriptions.",
        READ,
        answers={200: ("The subscriptions.", ref("Subscriptions"))},
    ),
    Action(
        "GET",
        "/v1/subscriptions/{name}",
        subscriptions.get,
        "A subscription: its position, how far behind, its webhook.",
        READ,
        (_NAME,),
        answers={200: _SUBSCRIPTION},
    ),
    Action(
        "PUT",
        "/v1/subscriptions/{name}",
        subscriptions.put,
        "Make a subscription; set or remove its webhook.",
        ADMIN,
        (_NAME,),
        body=ref("SubscriptionIn"),
        answers={200: _SUBSCRIPTION, 201: ("It is new.", ref("Subscription"))},
    ),
    Action(
        "DELETE",
        "/v1/subscriptions/{name}",
        subscriptions.delete,
        "Delete a subscription, its position and its webhook.",
        ADMIN,
        (_NAME,),
        answers={200: ("As it was.", ref("Subscription"))},
    ),
    Action(
        "GET",
        "/v1/subscriptions/{name}/outcomes",
        subscriptions.outcomes,
        "Outcomes after the subscription's position.",
        READ,
        (_NAME, _LIMIT, _WAIT_MS),
        answers={200: ("A page of the feed.", ref("Outcomes"))},
    ),
    Action(
        "PUT",
        "/v1/subscriptions/{name}/position",
        subscriptions.move,
        "Keep the subscription's position.",
        WRITE,
        (_NAME,),
        body=ref("Position"),
        answers={200: _SUBSCRIPTION},
    ),
    Action(
        "GET",
        "/v1/state",
        health.state,
        "The numbers that the dashboard shows.",
        READ,
        answers={200: ("The numbers; docs/dashboard.md says what they are.", {"type": "object"})},
    ),
    Action(
        "GET",
        "/",
        dashboard.index,
        "The dashboard.",
        answers={200: ("The page.", "text/html")},
    ),
    Action(
        "GET",
        "/dashboard/{name}",
        dashboard.file,
        "A file of the dashboard's.",
        parameters=(Parameter("name", "path", "Its name.", "string"),),
        answers={200: ("The file, of whichever type.", "*/*")},
    ),
    Action(
        "GET",
        "/healthz",
        health.alive,
        "Is the process alive?",
        answers={200: ("It is.", ref("Alive"))},
    ),
    Action(
        "GET",
        "/readyz",
        health.ready,
        "Does it take commands?",
        answers={200: ("It does.", ref("Ready"))},
    ),
    Action(
        "GET",
        "/metrics",
        health.metrics,
        "What is counted, for Prometheus.",
        READ,
        answers={200: ("Prometheus' text format.", "text/plain")},
    ),
    Action(
        "GET",
        "/openapi.json",
        _openapi,
        "This document.",
        answers={200: ("The document.", {"type": "object"})},
    ),
)


def routes() -> list[BaseRoute]:
    """Starlette's routes: one for each path."""
    by_path: dict[str, list[Action]] = {}
    for action in ACTIONS:
        by_path.setdefault(action.path, []).append(action)
    return [Route(path, Endpoint(path, actions)) for path, actions in by_path.items()]
