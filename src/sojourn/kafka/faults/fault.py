"""One scripted fault: what it does, and which requests it is meant for."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sojourn.core.millis import checked_count
from sojourn.errors import OutOfRange, WrongType
from sojourn.kafka.apis.answer_shapes import PARTITION, TOPIC, can_name
from sojourn.kafka.wire import ErrorCode

if TYPE_CHECKING:
    from sojourn.kafka import wire
    from sojourn.kafka.apis.error_answers import NamedItem
    from sojourn.kafka.broker import Broker

_TIMES_MAX = 2**31 - 1


@dataclass(frozen=True, kw_only=True)
class Target:
    """Which requests a fault is meant for, and how many of them it hits; None means any."""

    topic: str | None = None
    partition: int | None = None
    client_id: str | None = None
    broker: int | None = None
    times: int | None = None
    probability: float = 1.0
    seed: int | None = None

    def check(self, api: str | None) -> None:
        """Raise WrongType or OutOfRange if a value is wrong, or does not suit this API."""
        for name, text in (("topic", self.topic), ("client_id", self.client_id)):
            if text is not None and not isinstance(text, str):
                raise WrongType(f"{name} must be a name, got {text!r}")
        self._check_place(api)
        if self.times is not None:
            checked_count(self.times, "times", 1, _TIMES_MAX, "None has no limit")
        probability, seed = self.probability, self.seed
        if isinstance(probability, bool) or not isinstance(probability, int | float):
            raise WrongType(f"probability must be a number, got {probability!r}")
        if not 0 < probability <= 1:
            raise OutOfRange(f"probability must be above 0 and at most 1, got {probability}")
        if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int)):
            raise WrongType(f"seed must be an integer, got {seed!r}")

    def _check_place(self, api: str | None) -> None:
        if self.partition is not None:
            checked_count(self.partition, "partition", 0, 2**31 - 1, "None means every partition")
            if self.topic is None:
                raise OutOfRange(f"partition {self.partition} of which topic? give topic= too")
        if api is None:
            return
        if self.topic is not None and not can_name(api, TOPIC):
            raise OutOfRange(f"requests of {api} name no topic; leave topic out")
        if self.partition is not None and not can_name(api, PARTITION):
            raise OutOfRange(f"requests of {api} name topics, not partitions; leave partition out")


@dataclass(frozen=True, kw_only=True)
class Effect:
    """What a fault does to a request: `verb` is that of `Faults`, the rest are its options."""

    verb: str
    error: ErrorCode = ErrorCode.none
    handled: bool = False
    ms: int = 0
    answer: bool = False
    hang: bool = False
    flaw: str = ""


class Fault:
    """One scripted fault. It ends when it has hit `times` requests, or when it is removed.

    As a context manager it is removed at the end.
    """

    def __init__(
        self,
        number: int,
        api: str | None,
        effect: Effect,
        target: Target,
        remove: Callable[[Fault], None],
    ) -> None:
        self.id = number
        self.api = api
        self.effect = effect
        self.target = target
        self.seed = target.seed
        if self.seed is None and target.probability < 1:
            self.seed = random.SystemRandom().randrange(2**31)
        #: How many requests it has hit.
        self.hits = 0
        self.is_active = True
        self._remove = remove
        self._random = random.Random(self.seed)

    def remove(self) -> None:
        """End it. What it has delayed already stays delayed."""
        self._remove(self)

    def __enter__(self) -> Fault:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def is_meant_for(self, request: wire.Request, broker: Broker) -> bool:
        """Whether it is meant for such a request; which partitions that names is not checked."""
        target = self.target
        return (
            not self.effect.flaw
            and (self.api is None or self.api == request.api.name)
            and (target.client_id is None or target.client_id == request.client_id)
            and (target.broker is None or target.broker == broker.id)
        )

    def matching(self, items: Sequence[NamedItem]) -> list[int]:
        """Which of the items that a request names it is meant for, by their index."""
        target = self.target
        return [
            number
            for number, item in enumerate(items)
            if (target.topic is None or item.topic == target.topic)
            and (target.partition is None or item.partition == target.partition)
        ]

    def try_hit(self) -> bool:
        """Count a hit, unless chance spares this request. With the agenda held."""
        probability = self.target.probability
        if probability < 1 and self._random.random() >= probability:
            return False
        self.hits += 1
        if self.hits == self.target.times:
            self.remove()
        return True

    def as_dict(self) -> dict[str, Any]:
        """What it is and how often it has hit; options that were not given are left out."""
        effect, target = self.effect, self.target
        fields = {
            "id": self.id,
            "do": effect.verb,
            "api": self.api,
            "error": effect.error.name.upper() if effect.error is not ErrorCode.none else None,
            "handled": effect.handled or None,
            "ms": effect.ms or None,
            "answer": effect.answer or None,
            "hang": effect.hang or None,
            "flaw": effect.flaw or None,
            "topic": target.topic,
            "partition": target.partition,
            "client_id": target.client_id,
            "broker": target.broker,
            "times": target.times,
            "probability": target.probability if target.probability < 1 else None,
            "seed": self.seed,
            "hits": self.hits,
            "active": self.is_active,
        }
        return {name: value for name, value in fields.items() if value is not None}

    def __repr__(self) -> str:
        fields = self.as_dict()
        shown = " ".join(
            f"{name}={value}"
            for name, value in fields.items()
            if name not in ("id", "do", "hits", "active")
        )
        state = "" if self.is_active else ", ended"
        return f"<Fault {self.id}: {self.effect.verb} {shown}, {self.hits} hits{state}>"
