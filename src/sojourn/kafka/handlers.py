"""Every handler of a broker, by the name of its API."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sojourn.kafka.apis import (
    configs,
    create_topics,
    delete_records,
    delete_topics,
    elections,
    features,
    find_coordinator,
    list_offsets,
    log_dirs,
    metadata,
    produce,
    reassignments,
    write_markers,
)
from sojourn.kafka.fetch import apis as fetch
from sojourn.kafka.security import authentication, scram_apis
from sojourn.kafka.transactions import apis as transactions
from sojourn.kafka.transactions import describe

if TYPE_CHECKING:
    from sojourn.kafka.broker import Broker, Handler

_MODULES = (
    authentication,
    metadata,
    produce,
    fetch,
    list_offsets,
    delete_records,
    create_topics,
    delete_topics,
    configs,
    elections,
    find_coordinator,
    reassignments,
    log_dirs,
    transactions,
    describe,
    write_markers,
    scram_apis,
    features,
)


def handlers(broker: Broker) -> Iterator[tuple[str, Handler]]:
    """The handlers of this broker."""
    for module in _MODULES:
        yield from module.handlers(broker).items()
    yield from broker.cluster.groups.handlers(broker).items()
