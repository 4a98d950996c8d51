"""Configuration: what can be set on a broker and on a topic, its type, default and bounds.

Every name that Kafka knows can be set, so that people's own property files and topic definitions
carry over; a name that it does not know is refused, and so is a value that it would refuse. Most
settings change nothing here (docs/kafka.md has those that do).

Values are kept as text, as the protocol has them. They lie in layers, the uppermost counts:

    a topic's      its own
                   the broker's of the corresponding name (`log.retention.ms` for `retention.ms`)
    a broker's     altered at this broker
                   altered for all brokers
                   given at the start: its own, then all brokers'
    the default
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from sojourn.errors import OutOfRange
from sojourn.kafka import known_settings

# The protocol's numbers for types.
BOOLEAN, STRING, INT, SHORT, LONG, DOUBLE, LIST, CLASS, PASSWORD = range(1, 10)

# And for where a value comes from.
TOPIC_CONFIG = 1
DYNAMIC_BROKER_CONFIG = 2
DYNAMIC_DEFAULT_BROKER_CONFIG = 3
STATIC_BROKER_CONFIG = 4
DEFAULT_CONFIG = 5

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
_MOST = {INT: 2**31 - 1, SHORT: 2**15 - 1, LONG: 2**63 - 1, DOUBLE: float("inf")}
_NULL = "~"


class InvalidConfig(OutOfRange):
    """A name that nobody knows, or a value that cannot be."""


class Definition(NamedTuple):
    """What a setting may be."""

    type: int
    default: str | None
    low: float = float("-inf")
    high: float = float("inf")
    besides: float | None = None  # what it may be outside these bounds
    choices: tuple[str, ...] = ()
    any_case: bool = False
    not_empty: bool = False
    broker_name: str = ""  # of a topic's setting: what it is called broker-wide
    read_only: bool = False
    is_hidden: bool = False  # accepted, but not told of

    @property
    def is_sensitive(self) -> bool:
        return self.type == PASSWORD

    def checked(self, name: str, value: str) -> str:
        """Return the value if it may be, or say why not."""
        text = value.strip()
        if self.type == BOOLEAN:
            if text.lower() not in ("true", "false"):
                raise InvalidConfig(f"{name} must be true or false, got {value!r}")
            return text.lower()
        if self.type in _MOST:
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
        most = _MOST[self.type]
        low, high = max(self.low, -most - 1), min(self.high, most)
        if not low <= number <= high and number != self.besides:
            raise InvalidConfig(f"{name} must be from {low:g} to {high:g}, got {text}")

    def _check_choice(self, name: str, text: str) -> None:
        parts = [part.strip() for part in text.split(",")] if self.type == LIST else [text]
        if self.type == LIST and not text:
            parts = []  # taking the last one away leaves none
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
            ),
        )


def _rule(rule: str) -> dict[str, Any]:
    bounds = re.fullmatch(r"(-?[\d.]+?)\.\.(-?[\d.]*)( or -1)?", rule)
    if bounds is not None:
        found: dict[str, Any] = {"low": float(bounds[1])}
        if bounds[2]:
            found["high"] = float(bounds[2])
        if bounds[3]:
            found["besides"] = -1
        return found
    if rule == "not empty":
        return {"not_empty": True}
    if rule.startswith("any case: "):
        return {"choices": tuple(rule.removeprefix("any case: ").split(", ")), "any_case": True}
    return {"choices": tuple(rule.split(", "))} if rule else {}


TOPIC: Mapping[str, Definition] = dict(_definitions(known_settings.TOPIC, read_only=False))

_BROKER = dict(_definitions(known_settings.BROKER, read_only=True))
BROKER: Mapping[str, Definition] = {
    **_BROKER,
    # Kafka's code says 3 s, its own configuration for development 0, and so do we: a test should
    # not wait unless it asks to.
    "group.initial.rebalance.delay.ms": _BROKER["group.initial.rebalance.delay.ms"]._replace(
        default="0"
    ),
    # Not of Kafka's: how much later each broker hears of a new topic than the one before it. -1:
    # as on a quick network, but at once on a clock that is moved by hand, where nobody would hear.
    "sojourn.metadata.delay.ms": Definition(INT, "-1", low=-1, is_hidden=True),
    # Not of Kafka's: its quotas are set per user, of which we have none.
    "sojourn.partition.mutations.per.second": Definition(DOUBLE, "inf", low=0, is_hidden=True),
}

# A broker's setting that is not set goes by another one, in another unit.
COARSER: Mapping[str, tuple[tuple[str, int], ...]] = {
    "log.retention.ms": (("log.retention.minutes", 60_000), ("log.retention.hours", 3_600_000)),
    "log.roll.ms": (("log.roll.hours", 3_600_000),),
    "log.roll.jitter.ms": (("log.roll.jitter.hours", 3_600_000),),
    "log.flush.interval.ms": (("log.flush.scheduler.interval.ms", 1),),
}


class Layer:
    """Values that were set in one place."""

    #: How often any layer was changed: what was looked up before may not hold any more.
    changes = 0

    def __init__(self, source: int, values: Mapping[str, str] | None = None) -> None:
        self.source = source
        self.values: Mapping[str, str] = dict(values or {})

    def replace(self, values: Mapping[str, str]) -> None:
        """Have these be set and no others."""
        self.values = dict(values)
        Layer.changes += 1


class Settings:
    """Settings of one broker, topic or cluster: layers, and for a topic what is beneath them."""

    def __init__(
        self,
        definitions: Mapping[str, Definition],
        layers: Sequence[Layer],
        beneath: Settings | None = None,
    ) -> None:
        self.definitions = definitions
        self.layers = layers
        self.beneath = beneath
        self._found: dict[str, str | None] = {}
        self._numbers: dict[str, int] = {}
        self._found_at = -1

    @property
    def own(self) -> Mapping[str, str]:
        """What was set here and not further down; the layer that clients alter."""
        return self.layers[0].values

    def over(self, beneath: Settings) -> Settings:
        """The same settings, above those of another broker."""
        return Settings(self.definitions, self.layers, beneath)

    def replace(self, own: Mapping[str, str]) -> None:
        """Have these be set here and no others."""
        self.layers[0].replace(own)

    def checked(self, name: str, value: str) -> str:
        if name not in self.definitions:
            raise InvalidConfig(f"Unknown config name: {name}")
        return self.definitions[name].checked(name, value)

    def found(self, name: str) -> str | None:
        """The value in force; None if there is none."""
        if self._found_at != Layer.changes:  # each fetch and each produce looks up several
            self._forget()
        try:
            return self._found[name]
        except KeyError:
            value = self._found[name] = self._find(name)
            return value

    def _forget(self) -> None:
        self._found, self._numbers, self._found_at = {}, {}, Layer.changes

    def _find(self, name: str) -> str | None:
        for layer in self.layers:
            if name in layer.values:
                return layer.values[name]
        definition = self.definitions[name]
        if self.beneath is not None and definition.broker_name:
            value = self.beneath.found(definition.broker_name)
            if value is not None:
                return value
            for coarser, factor in COARSER.get(definition.broker_name, ()):
                value = self.beneath.found(coarser)
                if value is not None:
                    return str(int(value) * factor)
        return definition.default

    def text(self, name: str) -> str:
        """The value in force; empty if there is none."""
        return self.found(name) or ""

    def number(self, name: str) -> int:
        if self._found_at != Layer.changes:
            self._forget()
        number = self._numbers.get(name)
        if number is None:
            number = self._numbers[name] = int(self.text(name))
        return number

    def flag(self, name: str) -> bool:
        return self.text(name) == "true"


def static_layer(values: Mapping[str, object] | None) -> Layer:
    """What brokers are started with, checked; or InvalidConfig."""
    return Layer(STATIC_BROKER_CONFIG, _checked(BROKER, values))


def topic_settings(beneath: Settings, values: Mapping[str, object] | None) -> Settings:
    """A topic's settings, checked; or InvalidConfig."""
    settings = Settings(TOPIC, [Layer(TOPIC_CONFIG, _checked(TOPIC, values))], beneath)
    check_together(settings)
    return settings


def check_together(settings: Settings) -> None:
    """Check what only can be said of several of a topic's settings; or InvalidConfig."""
    least, most = "min.compaction.lag.ms", "max.compaction.lag.ms"
    if settings.number(least) > settings.number(most):
        raise InvalidConfig(
            f"conflict in topic config: {least} {settings.text(least)} is above {most} "
            f"{settings.text(most)}"
        )


def _checked(
    definitions: Mapping[str, Definition], values: Mapping[str, object] | None
) -> dict[str, str]:
    settings = Settings(definitions, [Layer(DEFAULT_CONFIG)])
    return {name: settings.checked(name, _as_text(value)) for name, value in (values or {}).items()}


def _as_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
