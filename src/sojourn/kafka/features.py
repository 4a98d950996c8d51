"""Features: what the brokers of a cluster can do, and at which level they do it.

A feature has levels. Brokers support a range of them, and the cluster works at its finalized level,
which clients update. No feature changes what brokers do here: they are those of Kafka that we have,
at the levels that we have, for clients that look.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import NamedTuple

from sojourn.kafka.refusal import Refused
from sojourn.kafka.wire import ErrorCode

METADATA_VERSION = "metadata.version"
KRAFT_VERSION = "kraft.version"


class Levels(NamedTuple):
    """The levels of a feature that brokers support."""

    lowest: int
    highest: int


SUPPORTED: Mapping[str, Levels] = {
    "group.version": Levels(0, 1),
    KRAFT_VERSION: Levels(0, 1),
    METADATA_VERSION: Levels(7, 30),  # 3.3 to 4.3
    "transaction.version": Levels(0, 1),
}

# Kafka does not go back where that would lose metadata.
_NEVER_LOWERED = (METADATA_VERSION,)


class UpdateType(enum.IntEnum):
    """What an update of a feature may do to its level."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class Features:
    """The finalized levels of a cluster's features. Called with the agenda held."""

    def __init__(self) -> None:
        self._levels = {
            name: levels.highest for name, levels in SUPPORTED.items() if name != KRAFT_VERSION
        }
        #: Counts the updates.
        self.epoch = 0

    def finalized(self) -> Mapping[str, int]:
        """The levels that are not 0."""
        return {name: level for name, level in self._levels.items() if level}

    def level(self, name: str) -> int:
        return self._levels.get(name, 0)

    def check_update(self, name: str, level: int, update_type: int) -> None:
        """Raise Refused if the feature cannot go to this level by an update of this type."""
        if update_type not in tuple(UpdateType):
            raise _refused(name, level, f"there is no update type {update_type}")
        if level < 0:
            raise _refused(name, level, "a level cannot be less than 0")
        if name not in SUPPORTED:
            raise _refused(name, level, "brokers have no such feature")
        lowest, highest = SUPPORTED[name]
        if level and not lowest <= level <= highest:
            raise _refused(name, level, f"brokers support levels {lowest} to {highest}")
        present = self.level(name)
        if level < present and update_type == UpdateType.UPGRADE:
            raise _refused(name, level, f"it is at {present}, and the update is not a downgrade")
        if level > present and update_type != UpdateType.UPGRADE:
            raise _refused(name, level, f"it is at {present}, and the update is a downgrade")
        if level < present and name in _NEVER_LOWERED:
            raise _refused(name, level, f"it is at {present}, and metadata would be lost")

    def update(self, name: str, level: int) -> None:
        """Set the level, which was checked."""
        if self.level(name) != level:
            self._levels[name] = level
            self.epoch += 1


def _refused(name: str, level: int, why: str) -> Refused:
    return Refused(
        ErrorCode.invalid_update_version, f"Invalid update version {level} for {name}: {why}"
    )
