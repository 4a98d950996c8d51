"""InitProducerId: an id for each idempotent producer. There are no transactions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sojourn.kafka.wire import ErrorCode

if TYPE_CHECKING:
    from sojourn.kafka.broker import Broker, Context, Handler, Reply


def handlers(broker: Broker) -> Mapping[str, Handler]:
    return {"init_producer_id": init_producer_id}


def init_producer_id(request: Any, reply: Reply, context: Context) -> None:
    """Give out the next id, at epoch 0."""
    if request.transactional_id is not None:
        reply(
            {
                "error_code": ErrorCode.transactional_id_authorization_failed,
                "producer_id": -1,
                "producer_epoch": -1,
            }
        )
        return
    known_id = getattr(request, "producer_id", -1)
    known_epoch = getattr(request, "producer_epoch", -1)
    if (known_id < 0) != (known_epoch < 0):  # a producer that goes on knows both
        reply({"error_code": ErrorCode.invalid_request, "producer_id": -1, "producer_epoch": -1})
        return
    cluster = context.broker.cluster
    producer_id = cluster.next_producer_id
    cluster.next_producer_id += 1
    reply({"producer_id": producer_id, "producer_epoch": 0})
