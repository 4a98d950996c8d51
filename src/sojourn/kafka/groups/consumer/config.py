"""The settings of consumer groups: Kafka's `group.consumer.*`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sojourn.kafka.groups.consumer.assignors import ASSIGNORS
from sojourn.kafka.settings.definitions import InvalidConfig

_PREFIX = "group.consumer."
_BOUNDED = ("session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms")


@dataclass(frozen=True)
class ConsumerGroupConfig:
    """The defaults are those of our brokers."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    #: A target is computed at most once in this time; 0: whenever the group changes.
    assignment_interval_ms: Callable[[], int] = lambda: 0
    regex_refresh_interval_ms: int = 600_000
    max_size: int = 2**31 - 1
    #: The first is the default.
    assignors: tuple[str, ...] = tuple(ASSIGNORS)
    #: Whether the protocol is served at all.
    is_enabled: bool = True

    @classmethod
    def of(cls, number: Callable[[str], int], text: Callable[[str], str]) -> ConsumerGroupConfig:
        """From a broker's settings: value by name; or InvalidConfig."""
        for name in _BOUNDED:
            _check_bounds(name, number)
        assignors = _names(text(f"{_PREFIX}assignors"))
        unknown = [name for name in assignors if name not in ASSIGNORS]
        if unknown or not assignors:
            raise InvalidConfig(
                f"{_PREFIX}assignors must list some of {', '.join(ASSIGNORS)}, got "
                f"{text(f'{_PREFIX}assignors')!r}; assignors of your own cannot run here"
            )
        if number(f"{_PREFIX}heartbeat.interval.ms") >= number(f"{_PREFIX}session.timeout.ms"):
            raise InvalidConfig(
                f"{_PREFIX}heartbeat.interval.ms must be less than {_PREFIX}session.timeout.ms"
            )
        return cls(
            session_timeout_ms=number(f"{_PREFIX}session.timeout.ms"),
            heartbeat_interval_ms=number(f"{_PREFIX}heartbeat.interval.ms"),
            # Clients can alter it.
            assignment_interval_ms=lambda: number(f"{_PREFIX}assignment.interval.ms"),
            regex_refresh_interval_ms=number(f"{_PREFIX}regex.refresh.interval.ms"),
            max_size=number(f"{_PREFIX}max.size"),
            assignors=assignors,
            is_enabled="consumer" in _names(text("group.coordinator.rebalance.protocols")),
        )


def _names(listed: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in listed.split(",") if name.strip())


def _check_bounds(name: str, number: Callable[[str], int]) -> None:
    low, high = number(f"{_PREFIX}min.{name}"), number(f"{_PREFIX}max.{name}")
    value = number(_PREFIX + name)
    if not low <= value <= high:
        raise InvalidConfig(
            f"{_PREFIX}{name} must be from {low} ({_PREFIX}min.{name}) to {high} "
            f"({_PREFIX}max.{name}), got {value}; set the bound, too"
        )
