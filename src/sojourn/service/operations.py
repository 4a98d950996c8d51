"""Operations: one of them, and lists of those that wait."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.requests import Request

from sojourn.durable import Operation
from sojourn.service.commands import check_id, check_key
from sojourn.service.errors import Refusal
from sojourn.service.replies import Reply, encode, json
from sojourn.service.wire import OperationOut, operation_out

_MOST_BYTES = 4 << 20  # after which a list has no more


async def get(request: Request, id: str, wait_ms: int) -> Reply:
    """GET /v1/operations/{id}: as it is, or once it has ended."""
    service = request.app.state.service
    check_id(id, service.settings.limits)
    if not wait_ms:
        return _reply(request, id, await service.find(id))
    with service.polls.watching(id):
        operation = await service.find(id)
        if operation is not None and operation.at_ms is None and not service.is_closing:
            ended = await service.polls.until_ended(id, wait_ms, request)
            operation = ended or operation
        return _reply(request, id, operation)


async def waiting(request: Request, key: str | None, limit: int) -> Reply:
    """GET /v1/operations: who waits on a key, or has waited longest."""
    service = request.app.state.service
    if key is None:
        operations = await service.ask(lambda machine: machine.oldest(limit))
    else:
        check_key(key, service.settings.limits)
        operations = await service.ask(lambda machine: machine.waiting_on(key, limit))
    written: list[bytes] = []
    size = 0
    for one in operations:
        written.append(encode(operation_out(one)))
        size += len(written[-1])
        if size > _MOST_BYTES:
            break
    return Reply(200, b'{"operations":[%b]}' % b",".join(written))


def _reply(request: Request, id: str, operation: Operation | None) -> Reply:
    if operation is None:
        raise Refusal(
            404,
            "not_found",
            "no operation of this id is known, or it ended too long ago",
            found=id,
            do="submit it first",
        )
    out: Any = operation_out(operation)
    if operation.at_ms is None:
        out = with_progress(request, out)
    return json(out)


def with_progress(request: Request, out: OperationOut) -> dict[str, Any]:
    """The operation, with how far the key of each requirement has come."""
    purgatory = request.app.state.service.purgatory
    fields: dict[str, Any] = msgspec.to_builtins(out)
    for requirement in fields["requires"]:
        progress = purgatory.progress(requirement["key"])
        requirement["progress"] = progress
        requirement["holds"] = progress is not None and progress >= requirement["offset"]
    return fields
