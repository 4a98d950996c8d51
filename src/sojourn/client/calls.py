"""Calls: one request and its reply as plain data, and when to ask again.

The client's core sends nothing. A verb is a generator: it yields a `Call` and is sent a `Reply`,
or a `NoReply` if none came; it yields a `Pause` and is sent nothing when that is over. A face, for
threads or for asyncio, does the sending and the waiting:

    verb                        face
    yield Call(POST, …)   --->  over the network
    NoReply(refused)      <---
    yield Pause(0.04)     --->  sleeps
    yield Call(POST, …)   --->  over the network
    Reply(200, …)         <---
    return Answer(…)

Everything may be sent again: a submission has its id, progress moves only up, what has ended
stays ended. So a call that got no reply, or "try later", is repeated until its time is up.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

FIRST_PAUSE_S = 0.05
LONGEST_PAUSE_S = 5.0
_LONGEST_RETRY_AFTER_S = 60.0
_ATTEMPT_S = 10.0  # without a byte from the service
_TRY_LATER = frozenset((429, 502, 503, 504))

T = TypeVar("T")


class Call(NamedTuple):
    """A request."""

    method: str
    path: str  # with its query, encoded
    body: bytes | None = None
    wait_ms: int = 0  # how long the service was asked to wait before it replies
    timeout_s: float = 0.0  # how long this attempt may take


class Reply(NamedTuple):
    """What the service said."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class NoReply(NamedTuple):
    """Nothing was said: no connection, or it broke, or time ran out."""

    error: Exception


class Pause(NamedTuple):
    """Time to let pass."""

    seconds: float


Steps = Generator[Call | Pause, Any, T]


@dataclass
class Retries:
    """How long a call may take, and how long to pause between its attempts."""

    call_timeout_s: float
    now_s: Callable[[], float] = time.monotonic
    rng: random.Random = field(default_factory=random.Random)

    def until_s(self) -> float:
        """When the time of a call that begins now is up."""
        return self.now_s() + self.call_timeout_s

    def ask(self, call: Call, until_s: float) -> Steps[Reply | NoReply]:
        """Return the first reply that is not "try later", or the last of all when time is up.

        What the service was asked to wait is not counted.
        """
        until_s += call.wait_ms / 1000
        attempt = 0
        while True:
            left_s = until_s - self.now_s()
            timeout_s = min(max(left_s, 0.001), _ATTEMPT_S + call.wait_ms / 1000)
            reply: Reply | NoReply = yield call._replace(timeout_s=timeout_s)
            if isinstance(reply, Reply) and reply.status not in _TRY_LATER:
                return reply
            pause_s = self.pause_s(attempt, reply)
            if self.now_s() + pause_s >= until_s:
                return reply
            yield Pause(pause_s)
            attempt += 1

    def pause_s(self, attempt: int, reply: Reply | NoReply | None = None) -> float:
        """How long to pause after that attempt: longer each time, and not all clients alike."""
        most_s = min(FIRST_PAUSE_S * 2 ** min(attempt, 20), LONGEST_PAUSE_S)
        pause_s = self.rng.uniform(most_s / 2, most_s)
        return pause_s + retry_after_s(reply) if isinstance(reply, Reply) else pause_s


def retry_after_s(reply: Reply) -> float:
    """What the service asked for, in seconds; 0 if it did not."""
    text = reply.headers.get("retry-after", "")
    return min(float(text), _LONGEST_RETRY_AFTER_S) if text.isdecimal() else 0.0
