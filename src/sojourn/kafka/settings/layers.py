"""The values of settings, in layers.

Values are kept as text, as the protocol has them. The first layer that has a value counts:

    a topic's      the topic's own
                   the broker's of the corresponding name (`log.retention.ms` for `retention.ms`)
    a broker's     altered at this broker
                   altered for all brokers
                   given at the start: its own, then all brokers'
    the default
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sojourn.kafka.settings.definitions import BROKER, COARSER, TOPIC, Definition, InvalidConfig

# The protocol's numbers for where a value comes from.
TOPIC_CONFIG = 1
DYNAMIC_BROKER_CONFIG = 2
DYNAMIC_DEFAULT_BROKER_CONFIG = 3
STATIC_BROKER_CONFIG = 4
DEFAULT_CONFIG = 5


class Layer:
    """Values that were set in one place."""

    #: How often any layer was changed: cached values from before are out of date.
    changes = 0

    def __init__(self, source: int, values: Mapping[str, str] | None = None) -> None:
        self.source = source
        self.values: Mapping[str, str] = dict(values or {})

    def replace(self, values: Mapping[str, str]) -> None:
        """Set these values, and remove all others."""
        self.values = dict(values)
        Layer.changes += 1


class Settings:
    """Settings of one broker, topic or cluster: layers, and for a topic its broker's settings."""

    def __init__(
        self,
        definitions: Mapping[str, Definition],
        layers: Sequence[Layer],
        beneath: Settings | None = None,
    ) -> None:
        self.definitions = definitions
        self.layers = layers
        self.beneath = beneath
        self._values: dict[str, str | None] = {}  # a cache, valid until a layer changes
        self._numbers: dict[str, int] = {}
        self._cached_at = -1

    @property
    def own(self) -> Mapping[str, str]:
        """The values of the first layer, which clients alter."""
        return self.layers[0].values

    def over(self, beneath: Settings) -> Settings:
        """The same settings, with the defaults of another broker."""
        return Settings(self.definitions, self.layers, beneath)

    def replace(self, own: Mapping[str, str]) -> None:
        """Set these values here, and remove all others."""
        self.layers[0].replace(own)

    def checked(self, name: str, value: str) -> str:
        if name not in self.definitions:
            raise InvalidConfig(f"Unknown config name: {name}")
        return self.definitions[name].checked(name, value)

    def value(self, name: str) -> str | None:
        """The present value; None if there is none."""
        if self._cached_at != Layer.changes:  # each fetch and each produce looks up several
            self._clear_cache()
        try:
            return self._values[name]
        except KeyError:
            value = self._values[name] = self._find(name)
            return value

    def _clear_cache(self) -> None:
        self._values, self._numbers, self._cached_at = {}, {}, Layer.changes

    def _find(self, name: str) -> str | None:
        for layer in self.layers:
            if name in layer.values:
                return layer.values[name]
        definition = self.definitions[name]
        if self.beneath is not None and definition.broker_name:
            value = self.beneath.value(definition.broker_name)
            if value is not None:
                return value
            for coarser, factor in COARSER.get(definition.broker_name, ()):
                value = self.beneath.value(coarser)
                if value is not None:
                    return str(int(value) * factor)
        return definition.default

    def text(self, name: str) -> str:
        """The present value; empty if there is none."""
        return self.value(name) or ""

    def number(self, name: str) -> int:
        if self._cached_at != Layer.changes:
            self._clear_cache()
        number = self._numbers.get(name)
        if number is None:
            number = self._numbers[name] = int(self.text(name))
        return number

    def flag(self, name: str) -> bool:
        return self.text(name) == "true"


def static_layer(values: Mapping[str, object] | None) -> Layer:
    """The settings that brokers are started with, checked; or InvalidConfig."""
    return Layer(STATIC_BROKER_CONFIG, _checked(BROKER, values))


def topic_settings(beneath: Settings, values: Mapping[str, object] | None) -> Settings:
    """A topic's settings, checked; or InvalidConfig."""
    settings = Settings(TOPIC, [Layer(TOPIC_CONFIG, _checked(TOPIC, values))], beneath)
    check_together(settings)
    return settings


def check_together(settings: Settings) -> None:
    """Check settings of a topic that limit each other; or InvalidConfig."""
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
