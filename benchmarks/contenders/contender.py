"""What a timer must do to take part."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from array import array
    from collections.abc import Sequence

PAST_ALL_MS = 30_001


class Tally:
    """The callback of every timer in a run: counts its calls."""

    def __init__(self) -> None:
        self.count = 0

    def hit(self) -> None:
        self.count += 1


class Contender(ABC):
    """A timer under test. `add`, `cancel`, `settle` and `expire` are timed, the rest is not.

    Each method works on a whole batch in the way a careful user of that library would write it,
    so that no contender pays for a wrapper of ours. Whatever object a user must build for a
    timer is built inside `add`.
    """

    expires = True  # whether `expire` can be measured without waiting 30 s

    def __init__(self) -> None:
        self.tally = Tally()

    def prepare(self, delays_ms: array[int]) -> Any:
        """The delays in this library's unit and favourite container."""
        return list(delays_ms)

    @abstractmethod
    def add(self, delays: Any) -> Sequence[Any]:
        """Start a timer for each delay; their handles."""

    def pick(self, handles: Sequence[Any], order: array[int]) -> Any:
        """The handles to cancel, in that order."""
        return [handles[i] for i in order]

    @abstractmethod
    def cancel(self, handles: Any) -> None:
        """Cancel them one by one, or at one stroke if the library can."""

    def settle(self) -> None:  # noqa: B027
        """Do the housekeeping that cancelling put off, as the library would by and by."""

    def before_expiry(self, survivors_ms: list[int]) -> None:  # noqa: B027
        """Whatever must be arranged so that `expire` needs no waiting."""

    def expire(self) -> int:
        """Let 30 s pass; how many timers ran."""
        raise NotImplementedError

    def close(self) -> None:  # noqa: B027
        """Drop what is left."""
