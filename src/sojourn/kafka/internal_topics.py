"""The topics that Kafka keeps for itself: `__consumer_offsets` and `__transaction_state`.

Each is created when a client first looks for a coordinator of its kind, or asks for the topic, and
clients see and describe it as in Kafka. Groups and transactions are not kept in it, so it has no
records; nobody but an admin client may write to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from sojourn.kafka.controller import Controller
    from sojourn.kafka.topic import Topic

OFFSETS = "__consumer_offsets"
TRANSACTIONS = "__transaction_state"
#: The name of the controllers' log, which is no topic.
CLUSTER_METADATA = "__cluster_metadata"

#: The client id with which Kafka's own tools may write to internal topics.
ADMIN_CLIENT = "__admin_client"


_SEGMENT_BYTES_MIN = 14  # of any topic
_NAMES = frozenset({OFFSETS, TRANSACTIONS, "__share_group_state"})


class _Layout(NamedTuple):
    """How a topic is created: the brokers' settings for it, and its own."""

    prefix: str  # of the broker settings for partitions, replicas and segments
    config: dict[str, str]


_LAYOUTS = {
    OFFSETS: _Layout(
        "offsets.topic", {"cleanup.policy": "compact", "compression.type": "producer"}
    ),
    TRANSACTIONS: _Layout(
        "transaction.state.log",
        {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "unclean.leader.election.enable": "false",
        },
    ),
}


def is_internal(name: str) -> bool:
    """Whether Kafka keeps a topic of this name for itself."""
    return name in _NAMES


def can_be_created(name: str) -> bool:
    """Whether it is created when it is needed; share groups have their topic, and not here."""
    return name in _LAYOUTS


def find_or_create_internal_topic(controller: Controller, name: str) -> Topic:
    """The internal topic of this name, created if it is missing; or Refused.

    It has as many replicas as there are brokers where the settings ask for more: Kafka would not
    create it.
    """
    topic = controller.topics.get(name)
    if topic is not None:
        return topic
    prefix, config = _LAYOUTS[name]
    number = controller.settings.number
    segment_bytes = max(_SEGMENT_BYTES_MIN, number(f"{prefix}.segment.bytes"))
    config = {**config, "segment.bytes": str(segment_bytes)}
    if name == TRANSACTIONS:
        config["min.insync.replicas"] = str(number(f"{prefix}.min.isr"))
    replicas = min(number(f"{prefix}.replication.factor"), len(controller.all_brokers()))
    return controller.add_topic(
        name,
        controller.place(number(f"{prefix}.num.partitions"), replicas),
        controller.topic_settings(config),
    )
