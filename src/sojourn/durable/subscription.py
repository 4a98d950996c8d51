"""The subscription: a reader of outcomes with a name and a durable position, for threads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sojourn.core.millis import checked_count
from sojourn.durable.answers import Operation
from sojourn.durable.requests import Request

if TYPE_CHECKING:
    from sojourn.durable.purgatory import Purgatory


class Subscription:
    """A reader of outcomes with a name, whose position is kept in the file.

    `read` goes on where this object has come to; `commit` makes that durable. After a restart
    reading begins at the committed position, so an outcome may come again: at least once. Not
    for several threads at once.
    """

    name: str

    def __init__(self, purgatory: Purgatory, name: str) -> None:
        self._purgatory = purgatory
        self.name = name
        self._cursor = self.position

    @property
    def position(self) -> int:
        """The number of the last outcome that was committed; 0 before the first."""
        return self._purgatory.subscriptions().get(self.name, 0)

    @property
    def behind(self) -> int:
        """How many outcomes have not been committed."""
        return self._purgatory.last_outcome - self.position

    def read(self, limit: int = 1000, wait_ms: int = 0) -> list[Operation]:
        """Return the next outcomes, in order; wait up to `wait_ms` if there are none yet."""
        outcomes = self._purgatory.outcomes(self._cursor, limit, wait_ms)
        self.move_past(outcomes)
        return outcomes

    def commit(self, number: int | None = None) -> None:
        """Keep the position: the number of the last outcome that is done with.

        By default all that were read.
        """
        self._purgatory.carry_out(self.commit_request(number)).result()

    def commit_request(self, number: int | None = None) -> Request:
        """What `commit` sends."""
        if number is None:
            number = self._cursor
        last = self._purgatory.last_outcome
        number = checked_count(number, "number", 0, last, "it is the number of an outcome")
        self._cursor = max(self._cursor, number)
        return Request(position=(self.name, number))

    def remove(self) -> None:
        """Forget the position; a subscription of this name would begin at the oldest again."""
        self._purgatory.carry_out(Request(position=(self.name, None))).result()
        self._cursor = 0

    @property
    def cursor(self) -> int:
        """The number of the last outcome that was read."""
        return self._cursor

    def move_past(self, outcomes: list[Operation]) -> None:
        """Count these as read."""
        if outcomes and outcomes[-1].number is not None:
            self._cursor = outcomes[-1].number

    def __repr__(self) -> str:
        return f"<Subscription {self.name!r} position={self.position}>"
