"""FindCoordinator: which broker coordinates a group, or a transactional id."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sojourn.kafka.internal_topics import (
    OFFSETS,
    TRANSACTIONS,
    find_or_create_internal_topic,
)
from sojourn.kafka.wire import ErrorCode, Fields

if TYPE_CHECKING:
    from sojourn.kafka.broker import Context, Reply

_GROUP, _TRANSACTION = 0, 1
_TOPICS = {_GROUP: OFFSETS, _TRANSACTION: TRANSACTIONS}
_SEVERAL_KEYS_SINCE = 4  # from this version on one request asks for several


def find_coordinator(request: Any, reply: Reply, context: Context) -> None:
    """Answer with the coordinator of each key."""
    key_type = getattr(request, "key_type", _GROUP)
    if hasattr(request, "coordinator_keys"):
        keys = request.coordinator_keys
        reply({"coordinators": [_coordinator(key, key_type, context) for key in keys]})
    else:
        fields = dict(_coordinator(request.key, key_type, context))
        del fields["key"]
        reply(fields)


def _coordinator(key: str, key_type: int, context: Context) -> Fields:
    broker = context.broker.cluster.coordinator(key)
    if broker is not None and key_type in _TOPICS:
        find_or_create_internal_topic(context.broker.cluster.controller, _TOPICS[key_type])
    error = ErrorCode.none
    message = "" if context.api_version >= _SEVERAL_KEYS_SINCE else "NONE"
    if key_type not in (_GROUP, _TRANSACTION):
        error = ErrorCode.invalid_request
        message = f"key type {key_type} has no coordinator; groups (0) and transactions (1) have"
    elif broker is None:
        error, message = ErrorCode.coordinator_not_available, "no broker is alive"
    if error is not ErrorCode.none or broker is None:
        endpoint: Fields = {"node_id": -1, "host": "", "port": -1}
    else:
        endpoint = {name: broker.endpoint(context)[name] for name in ("node_id", "host", "port")}
    return {"key": key, "error_code": error, "error_message": message, **endpoint}
