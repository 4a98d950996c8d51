"""A scenario: a name, what it asks, and on what kind of cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from sojourn.kafka.wire import VERSIONS
from tests.kafka.conformance.world import World


class Scenario(NamedTuple):
    name: str
    play: Callable[[World], None]
    brokers: int
    config: Mapping[str, str]
    since: int  # the major version from which on Kafka starts with this config


#: Every scenario, by its name.
ALL: dict[str, Scenario] = {}


def scenario(
    *, brokers: int = 1, config: Mapping[str, str] | None = None, since: int = 3
) -> Callable[[Callable[[World], None]], Callable[[World], None]]:
    """Make the function a scenario of its name."""

    def note(play: Callable[[World], None]) -> Callable[[World], None]:
        name = play.__name__.replace("_", " ")
        assert name not in ALL, name
        ALL[name] = Scenario(name, play, brokers, config or {}, since)
        return play

    return note


def versions(api: str, low: int = 0) -> range:
    """The versions that all three serve: ours, which both Kafkas have too."""
    lowest, highest = VERSIONS[api]
    return range(max(low, lowest), min(highest, _HIGHEST_IN_BOTH.get(api, highest)) + 1)


# Kafka 3.9 knows no higher ones.
_HIGHEST_IN_BOTH = {
    "produce": 11,
    "fetch": 17,
    "list_offsets": 9,
    "metadata": 12,
    "offset_commit": 9,
    "offset_fetch": 9,
    "describe_groups": 5,
    "describe_cluster": 1,
    "init_producer_id": 5,
    "describe_log_dirs": 4,
    "alter_partition_reassignments": 0,
}
