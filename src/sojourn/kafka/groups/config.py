"""The settings of a group coordinator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class GroupConfig:
    """The defaults are those of our brokers."""

    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    initial_rebalance_delay_ms: int = 0
    max_size: int = 2**31 - 1
    offset_metadata_max_bytes: int = 4_096
    #: How long a new member's first join may wait; until it is answered it sends no heartbeats.
    new_member_join_timeout_ms: int = 300_000

    @classmethod
    def of(cls, number: Callable[[str], int]) -> GroupConfig:
        """From a broker's settings: `number(name)` gives the value of that name."""
        return cls(
            min_session_timeout_ms=number("group.min.session.timeout.ms"),
            max_session_timeout_ms=number("group.max.session.timeout.ms"),
            initial_rebalance_delay_ms=number("group.initial.rebalance.delay.ms"),
            max_size=number("group.max.size"),
            offset_metadata_max_bytes=number("offset.metadata.max.bytes"),
        )
