"""The settings of brokers and topics: their types, defaults and bounds, and which have an effect.

Every setting of Kafka is accepted, so that people's own property files and topic definitions carry
over. An unknown name is refused, and so is a value that Kafka would refuse. Most settings have no
effect here (docs/kafka.md lists those that have).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from sojourn.errors import OutOfRange
from sojourn.kafka.settings import known

# The protocol's numbers for types of settings.
BOOLEAN, STRING, INT, SHORT, LONG, DOUBLE, LIST, CLASS, PASSWORD = range(1, 10)

_TYPES = {
    "boolean": BOOLEAN,
    "string": STRING,
    "int": INT,
    "short": SHORT,
    "long": LONG,
    "double": DOUBLE,
    "list": LIST,
    "class": CLASS,
    "password": PASSWORD,
}
_MAX = {INT: 2**31 - 1, SHORT: 2**15 - 1, LONG: 2**63 - 1, DOUBLE: float("inf")}
_NULL = "~"


class InvalidConfig(OutOfRange):
    """An unknown setting, or a value that it cannot have."""


class Definition(NamedTuple):
    """A setting: its type, default and bounds."""

    type: int
    default: str | None
    low: float = float("-inf")
    high: float = float("inf")
    besides: float | None = None  # one allowed value outside the bounds
    choices: tuple[str, ...] = ()
    any_case: bool = False
    not_empty: bool = False
    broker_name: str = ""  # of a topic's setting: the broker's setting that is its default
    read_only: bool = False
    is_hidden: bool = False  # accepted, but not described
    is_used: bool = False  # has an effect here

    @property
    def is_sensitive(self) -> bool:
        return self.type == PASSWORD

    def checked(self, name: str, value: str) -> str:
        """The value in its normal form; or InvalidConfig."""
        text = value.strip()
        if self.type == BOOLEAN:
            if text.lower() not in ("true", "false"):
                raise InvalidConfig(f"{name} must be true or false, got {value!r}")
            return text.lower()
        if self.type in _MAX:
            self._check_number(name, text)
            return text
        if self.not_empty and not text:
            raise InvalidConfig(f"{name} must not be empty")
        if self.choices:
            self._check_choice(name, text)
        return text

    def _check_number(self, name: str, text: str) -> None:
        as_number: Callable[[str], float] = float if self.type == DOUBLE else int
        try:
            number = as_number(text)
        except ValueError:
            raise InvalidConfig(f"{name} must be a number, got {text!r}") from None
        most = _MAX[self.type]
        low, high = max(self.low, -most - 1), min(self.high, most)
        if not low <= number <= high and number != self.besides:
            raise InvalidConfig(f"{name} must be from {low:g} to {high:g}, got {text}")

    def _check_choice(self, name: str, text: str) -> None:
        parts = [part.strip() for part in text.split(",")] if self.type == LIST else [text]
        if self.type == LIST and not text:
            parts = []  # subtracting the last one leaves an empty list
        for part in parts:
            if (part.upper() if self.any_case else part) not in self.choices:
                allowed = ", ".join(self.choices)
                raise InvalidConfig(f"{name} must be one of {allowed}, got {text!r}")


def _definitions(table: str, read_only: bool) -> Iterator[tuple[str, Definition]]:
    for line in table.strip("\n").splitlines():
        name, kind, default, rule, flags = [*(part.strip() for part in line.split("|")), "", ""][:5]
        words = flags.split()
        yield (
            name,
            Definition(
                _TYPES[kind],
                None if default == _NULL else default,
                **_rule(rule),
                broker_name=words[words.index("as") + 1] if "as" in words else "",
                read_only=read_only and "dynamic" not in words,
                is_hidden="hidden" in words,
                is_used="used" in words,
            ),
        )


def _rule(rule: str) -> dict[str, Any]:
    bounds = re.fullmatch(r"(-?[\d.]+?)\.\.(-?[\d.]*)( or -1)?", rule)
    if bounds is not None:
        limits: dict[str, Any] = {"low": float(bounds[1])}
        if bounds[2]:
            limits["high"] = float(bounds[2])
        if bounds[3]:
            limits["besides"] = -1
        return limits
    if rule == "not empty":
        return {"not_empty": True}
    if rule.startswith("any case: "):
        return {"choices": tuple(rule.removeprefix("any case: ").split(", ")), "any_case": True}
    return {"choices": tuple(rule.split(", "))} if rule else {}


TOPIC: Mapping[str, Definition] = dict(_definitions(known.TOPIC, read_only=False))

_BROKER = dict(_definitions(known.BROKER, read_only=True))

#: Defaults that are not Kafka's. A test should not wait for members unless it asks to; nor should
#: its purgatories be full of fetches by followers of internal topics. The interval of assignments
#: is a second since Kafka 4.3; the others are as in the configuration that Kafka ships for
#: development.
FOR_DEVELOPMENT = {
    "group.consumer.assignment.interval.ms": "0",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}

BROKER: Mapping[str, Definition] = {
    **_BROKER,
    **{name: _BROKER[name]._replace(default=value) for name, value in FOR_DEVELOPMENT.items()},
    # Ours: how much later each broker learns of a new topic than the one before it. -1: 5 ms, or 0
    # on a clock that is moved by hand.
    "sojourn.metadata.delay.ms": Definition(INT, "-1", low=-1, is_hidden=True),
    # Ours: Kafka's quotas are set per user, which we do not have.
    "sojourn.partition.mutations.per.second": Definition(DOUBLE, "inf", low=0, is_hidden=True),
}

# Where a broker's setting is not set, another one in another unit counts.
COARSER: Mapping[str, tuple[tuple[str, int], ...]] = {
    "log.retention.ms": (("log.retention.minutes", 60_000), ("log.retention.hours", 3_600_000)),
    "log.roll.ms": (("log.roll.hours", 3_600_000),),
    "log.roll.jitter.ms": (("log.roll.jitter.hours", 3_600_000),),
    "log.flush.interval.ms": (("log.flush.scheduler.interval.ms", 1),),
}


def _effective() -> Iterator[str]:
    for name, definition in [*TOPIC.items(), *BROKER.items()]:
        if definition.is_used:
            for_all = definition.broker_name
            yield from (name, for_all, *(coarser for coarser, _ in COARSER.get(for_all, ())))


#: Settings that change something here. The others are checked and described, and that is all.
EFFECTIVE = frozenset(_effective())
