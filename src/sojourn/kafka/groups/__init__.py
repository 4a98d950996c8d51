"""Consumer groups: members, generations and committed offsets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sojourn.kafka.broker import Broker, Handler


def handlers(broker: Broker) -> Mapping[str, Handler]:
    """The handlers of the group APIs on this broker, by name of the API."""
    return {}
