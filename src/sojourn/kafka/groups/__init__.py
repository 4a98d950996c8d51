"""Groups of consumers, of Kafka's classic protocol and of its consumer protocol (KIP-848)."""

from sojourn.kafka.groups.any_group import AnyGroup as AnyGroup  # a group of either protocol
from sojourn.kafka.groups.any_group import State as State  # a group's state
from sojourn.kafka.groups.consumer.group import ConsumerGroup as ConsumerGroup  # by heartbeats
from sojourn.kafka.groups.group import Group as Group  # a classic group: members and state
from sojourn.kafka.groups.groups import Groups as Groups  # all groups of a cluster
