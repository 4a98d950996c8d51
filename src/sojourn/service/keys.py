"""Keys: how far each has come, and who waits on it."""

from __future__ import annotations

from starlette.requests import Request

from sojourn.service.commands import check_key
from sojourn.service.replies import Reply, json


async def get(request: Request, key: str) -> Reply:
    """GET /v1/keys/{key}: a key that nothing is known of has no progress and nobody waiting."""
    service = request.app.state.service
    check_key(key, service.settings.limits)
    progress = service.purgatory.progress(key)
    waiting = await service.ask(lambda machine: machine.waiting_count(key))
    return json({"key": key, "progress": progress, "waiting": waiting})
