"""Plays the service to the client's core: scripted replies, and a clock that pauses move."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

from sojourn.client.address import Address
from sojourn.client.calls import Call, NoReply, Pause, Reply, Retries, Steps, T
from sojourn.client.verbs import Verbs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

URL = "http://waits.test:8080"


class Play:
    """A core whose calls are answered by a script, one reply a call; the last one is repeated."""

    def __init__(self, *script: Any, call_timeout_ms: int = 30_000, url: str = URL) -> None:
        self.now_s = 1_000.0
        self.calls: list[Call] = []
        self.pauses_s: list[float] = []
        self._script = list(script)
        retries = Retries(call_timeout_ms / 1000, lambda: self.now_s, random.Random(7))
        self.verbs = Verbs(Address(url, token="secret"), retries)

    def take(self, steps: Steps[T]) -> T:
        """Take the steps to their end."""
        reply: Reply | NoReply | None = None
        try:
            while True:
                step = steps.send(reply)
                if isinstance(step, Pause):
                    self.pauses_s.append(step.seconds)
                    self.now_s += step.seconds
                    reply = None
                else:
                    self.calls.append(step)
                    reply = self._reply(step)
        except StopIteration as end:
            value: T = end.value
            return value

    def _reply(self, call: Call) -> Reply | NoReply:
        entry = self._script.pop(0) if len(self._script) > 1 else self._script[0]
        if callable(entry):
            entry = entry(call)
        reply: Reply | NoReply = entry
        return reply

    def hold(self, seconds: float, reply: Reply) -> Callable[[Call], Reply]:
        """Reply after so long."""

        def later(call: Call) -> Reply:
            self.now_s += seconds
            return reply

        return later

    @property
    def rows(self) -> list[Any]:
        """What each call brought."""
        return [json.loads(call.body) for call in self.calls if call.body is not None]


def reply(status: int, value: Any, **headers: str) -> Reply:
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return Reply(status, named, json.dumps(value).encode())


def error(status: int, code: str, message: str = "no", **more: Any) -> Reply:
    headers = {"retry_after": str(more.pop("retry_after"))} if "retry_after" in more else {}
    return reply(status, {"error": {"code": code, "message": message, **more}}, **headers)


def refused() -> NoReply:
    return NoReply(ConnectionRefusedError("connection refused"))


def answers(*values: Any) -> Reply:
    return reply(200, {"answers": list(values)})


def accepted(call: Call) -> Reply:
    """Every row is."""
    assert call.body is not None
    return answers(*({"verdict": "accepted", "at_ms": 5} for _ in json.loads(call.body)))


def operation(id: str = "a", **fields: Any) -> dict[str, Any]:
    return {
        "id": id,
        "status": "waiting",
        "submitted_ms": 1,
        "deadline_ms": 11,
        "timeout_ms": 10,
        "at_ms": None,
        "by_key": None,
        "waited_ms": None,
        "class": "",
        "number": None,
        "requires": [{"key": "k", "offset": 1}],
        "needed": 1,
        "traceparent": None,
        **fields,
    }


def page(numbers: Iterable[int], last: int | None = None) -> Reply:
    rows = [operation(f"o{n}", status="expired", at_ms=11, number=n) for n in numbers]
    end = rows[-1]["number"] if rows else (last or 0)
    return reply(200, {"outcomes": rows, "last": end if last is None else last, "next": end})
