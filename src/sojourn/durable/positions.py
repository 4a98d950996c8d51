"""Positions: how far readers of outcomes (subscriptions) and of the journal (keepers) have come.

Both are rows of the file. New positions are written with a batch, in its transaction.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from sojourn.durable.records import checksum_of
from sojourn.durable.schema import check_row


class JournalPosition(NamedTuple):
    """How far a reader of the journal has come."""

    batch: int
    last_outcome: int  # the number of the last one up to that batch


class Positions(NamedTuple):
    """New positions, to be written with a batch."""

    subscriptions: dict[str, int | None]  # numbers of outcomes by name; None removes one
    keepers: dict[str, int | None]  # numbers of batches, likewise

    def __bool__(self) -> bool:
        return bool(self.subscriptions or self.keepers)


NO_POSITIONS = Positions({}, {})


def read_subscriptions(connection: Any, path: str) -> dict[str, int]:
    """The positions of all subscriptions, by name."""
    positions = {}
    for name, position, at_ms, checksum in connection.execute(
        "SELECT name, position, at_ms, checksum FROM subscriptions"
    ):
        check_row(path, checksum, f"subscription {name!r}", name, position, at_ms)
        positions[name] = position
    return positions


def read_keepers(connection: Any, path: str) -> dict[str, JournalPosition]:
    """All keepers, by name."""
    keepers = {}
    for name, batch, last_outcome, at_ms, checksum in connection.execute(
        "SELECT name, batch, last_outcome, at_ms, checksum FROM keepers"
    ):
        check_row(path, checksum, f"keeper {name!r}", name, batch, last_outcome, at_ms)
        keepers[name] = JournalPosition(batch, last_outcome)
    return keepers


def write_subscriptions(connection: Any, positions: dict[str, int | None], time_ms: int) -> None:
    """Write new positions of subscriptions; None removes one."""
    for name, number in positions.items():
        if number is None:
            connection.execute("DELETE FROM subscriptions WHERE name = ?", (name,))
            continue
        row = (name, number, time_ms)
        connection.execute(
            "INSERT OR REPLACE INTO subscriptions VALUES (?, ?, ?, ?)", (*row, checksum_of(*row))
        )


def write_keepers(
    connection: Any,
    keepers: dict[str, JournalPosition],
    batches: dict[str, int | None],
    time_ms: int,
) -> dict[str, JournalPosition]:
    """Write new positions of keepers; None removes one. Return all keepers as they are then."""
    keepers = dict(keepers)
    for name, batch in batches.items():
        if batch is None:
            connection.execute("DELETE FROM keepers WHERE name = ?", (name,))
            keepers.pop(name, None)
            continue
        (last_outcome,) = connection.execute(
            "SELECT coalesce(max(last_outcome), 0) FROM journal WHERE batch <= ?", (batch,)
        ).fetchone()
        row = (name, batch, last_outcome, time_ms)
        connection.execute(
            "INSERT OR REPLACE INTO keepers VALUES (?, ?, ?, ?, ?)", (*row, checksum_of(*row))
        )
        keepers[name] = JournalPosition(batch, last_outcome)
    return keepers
