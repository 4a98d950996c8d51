"""Groups of consumers, as Kafka's classic protocol has them."""

from sojourn.kafka.groups.group import Group as Group  # one group: its members and its state
from sojourn.kafka.groups.group import State as State  # a group's state
from sojourn.kafka.groups.groups import Groups as Groups  # all groups of a cluster
