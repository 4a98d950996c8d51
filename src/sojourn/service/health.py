"""Health: is it alive, does it take commands, and what has it counted?"""

from __future__ import annotations

from starlette.requests import Request

from sojourn.service.errors import Refusal, closing
from sojourn.service.replies import Reply, json, text


async def alive(request: Request) -> Reply:
    """GET /healthz: the process answers."""
    return json({"alive": True})


async def ready(request: Request) -> Reply:
    """GET /readyz: it takes commands."""
    service = request.app.state.service
    if service.is_closing:
        raise closing()
    trouble = service.trouble()
    if trouble is not None:
        raise Refusal(503, "not_ready", trouble, do="look at the disk and at the service's log")
    return json({"ready": True})


async def metrics(request: Request) -> Reply:
    """GET /metrics: for Prometheus."""
    return text(
        request.app.state.service.counts.text(), b"text/plain; version=0.0.4; charset=utf-8"
    )


async def state(request: Request) -> Reply:
    """GET /v1/state: what the dashboard shows."""
    return Reply(200, await request.app.state.service.state.as_json())
