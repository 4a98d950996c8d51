"""Subscriptions: readers with a name, whose position is on disk.

A new one begins at the oldest outcome. It is there once it was made with PUT, or has a position.
"""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.requests import Request as HttpRequest

from sojourn.durable.checks import checked_name
from sojourn.durable.requests import Request
from sojourn.errors import OutOfRange
from sojourn.service import bodies
from sojourn.service.errors import Refusal
from sojourn.service.outcomes import outcomes_after
from sojourn.service.replies import Reply, json
from sojourn.service.service import Service
from sojourn.service.webhooks import Webhook
from sojourn.service.wire import Position, RowDecoder


class SubscriptionIn(msgspec.Struct, forbid_unknown_fields=True):
    """What a PUT has."""

    webhook: Webhook | None = None


_SUBSCRIPTIONS = RowDecoder(SubscriptionIn)
_POSITIONS = RowDecoder(Position)


async def every(request: HttpRequest) -> Reply:
    """GET /v1/subscriptions."""
    return json({"subscriptions": request.app.state.service.subscribers()})


async def get(request: HttpRequest, name: str) -> Reply:
    """GET /v1/subscriptions/{name}."""
    return json(_get_or_refuse(request.app.state.service, name))


async def put(request: HttpRequest, name: str) -> Reply:
    """PUT /v1/subscriptions/{name}: make it, and set or remove its webhook."""
    service: Service = request.app.state.service
    body = await bodies.read(request)
    settings = _SUBSCRIPTIONS.one(body or b"{}")
    checked_name(name)
    is_new = service.position(name) is None
    if is_new:
        _check_room(service)
    if settings.webhook is not None:
        settings.webhook.check()
        service.deliveries.allow_list.check(settings.webhook.url)
    if is_new:
        await service.sender.send(Request(position=(name, 0)))
    secret = service.deliveries.set(name, settings.webhook)
    subscription = _get_or_refuse(service, name)
    if secret is not None:
        subscription["webhook"] = {**subscription["webhook"], "secret": secret}  # this once
    return json(subscription, 201 if is_new else 200)


async def delete(request: HttpRequest, name: str) -> Reply:
    """DELETE /v1/subscriptions/{name}: its position and its webhook."""
    service: Service = request.app.state.service
    subscription = _get_or_refuse(service, name)
    service.deliveries.set(name, None)
    await service.sender.send(Request(position=(name, None)))
    return json(subscription)


async def outcomes(request: HttpRequest, name: str, limit: int, wait_ms: int) -> Reply:
    """GET /v1/subscriptions/{name}/outcomes: those after its position."""
    service: Service = request.app.state.service
    after = service.position(checked_name(name)) or 0
    return await outcomes_after(request, after, limit, wait_ms)


async def move(request: HttpRequest, name: str) -> Reply:
    """PUT /v1/subscriptions/{name}/position: what comes up to there is done with."""
    service: Service = request.app.state.service
    body = await bodies.read(request)
    number = _POSITIONS.one(body).number
    if not 0 <= number <= service.feed.last:
        raise OutOfRange(
            f"number must be that of an outcome, from 0 to {service.feed.last}, got {number}"
        )
    if service.position(checked_name(name)) is None:
        _check_room(service)
    await service.sender.send(Request(position=(name, number)))
    return json(_get_or_refuse(service, name))


def _get_or_refuse(service: Service, name: str) -> dict[str, Any]:
    subscription = service.subscriber(name)
    if subscription is None:
        raise Refusal(
            404,
            "not_found",
            "there is no subscription of this name",
            found=name,
            do="make it: PUT /v1/subscriptions/{name} with {}",
        )
    return subscription


def _check_room(service: Service) -> None:
    most = service.settings.limits.subscriptions
    count = len(service.purgatory.subscriptions())
    if count >= most:
        raise Refusal(
            429,
            "too_many_subscriptions",
            f"there are {count} subscriptions, and no more may be (limit subscriptions)",
            found=count,
            do="delete one that nobody needs",
        )
