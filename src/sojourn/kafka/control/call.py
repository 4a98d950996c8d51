"""A call of the control port: what its path names, and the values given with it, checked.

{"error": {"code": "no_such_topic", "message": "what was asked and found", "do": "what to do"}}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from sojourn.errors import OutOfRange

if TYPE_CHECKING:
    from sojourn.core.purgatory import Purgatory
    from sojourn.kafka.broker import Broker
    from sojourn.kafka.control.router import Router
    from sojourn.kafka.faults import Fault
    from sojourn.kafka.groups import AnyGroup
    from sojourn.kafka.partition import Partition
    from sojourn.kafka.topic import Topic

_WAIT_MS = 10_000
_WAIT_MS_MAX = 60_000


class ControlError(Exception):
    """A refused call: a status, a code, a message and what to do."""

    def __init__(self, status: int, code: str, message: str, do: str = "", found: str = "") -> None:
        super().__init__(message)
        self.status = status
        fields = {"code": code, "message": message, "found": found, "do": do}
        self.body = {"error": {name: text for name, text in fields.items() if text}}


class Call:
    """One call: what its path names, and its values, each to be taken once."""

    def __init__(self, router: Router, path: Mapping[str, str], values: dict[str, Any]) -> None:
        self.cluster = router.cluster
        self.router = router
        self.path = path
        self._values = values

    def take(self, name: str, kind: type | tuple[type, ...], default: Any = ...) -> Any:
        """The value of this name; without a default it must be given."""
        value = self._values.pop(name, None)
        if value is None:
            if default is ...:
                raise ControlError(400, "missing", f"{name} must be given", f"give {name}")
            return default
        if (isinstance(value, bool) and kind is not bool) or not isinstance(value, kind):
            kinds = kind if isinstance(kind, tuple) else (kind,)
            expected = " or ".join(one.__name__ for one in kinds)
            raise ControlError(400, "bad_type", f"{name} must be {expected}, got {value!r}")
        return value

    def number(self, name: str, default: Any = ...) -> Any:
        """The number of this name, also from the query."""
        value = self._values.get(name)
        if isinstance(value, str) and value.removeprefix("-").isdigit():
            self._values[name] = int(value)
        return self.take(name, int, default)

    def rest(self) -> dict[str, Any]:
        """The values that were not taken yet."""
        values, self._values = self._values, {}
        return values

    def check_all_taken(self) -> None:
        if self._values:
            names = ", ".join(sorted(self._values))
            raise ControlError(400, "unknown_field", f"{names}: this call has no such field")

    # What paths name.

    def _index(self, name: str) -> int:
        text = self.path[name]
        if not text.isdigit():
            raise ControlError(
                404, f"no_such_{name}", f"a {name} is given by its number, got {text!r}"
            )
        return int(text)

    def broker(self) -> Broker:
        try:
            return self.cluster.broker(self._index("broker"))
        except OutOfRange as error:
            raise ControlError(404, "no_such_broker", str(error)) from None

    def topic(self) -> Topic:
        name = self.path["topic"]
        topic = self.cluster.controller.topics.get(name)
        if topic is None:
            raise ControlError(
                404, "no_such_topic", f"there is no topic {name!r}", "create it: POST /topics"
            )
        return topic

    def partition(self) -> Partition:
        topic, index = self.topic(), self._index("partition")
        partition = topic.partition(index)
        if partition is None:
            raise ControlError(
                404,
                "no_such_partition",
                f"{topic.name} has {len(topic.partitions)} partitions, from 0, got {index}",
            )
        return partition

    def fault(self) -> Fault:
        number = self._index("fault")
        for fault in self.cluster.faults.listed():
            if fault.id == number:
                return fault
        raise ControlError(
            404,
            "no_such_fault",
            f"there is no fault {number}",
            "GET /faults lists them",
        )

    def group(self) -> AnyGroup:
        group = self.cluster.groups.get(self.path["group"])
        if group is None:
            raise ControlError(404, "no_such_group", f"there is no group {self.path['group']!r}")
        return group

    def purgatory(self) -> Purgatory:
        name = self.path["purgatory"].replace("_", "-")
        for purgatory in self.cluster.purgatories:
            if purgatory.name == name:
                return purgatory
        names = ", ".join(purgatory.name for purgatory in self.cluster.purgatories)
        raise ControlError(404, "no_such_purgatory", f"there is no {name!r}, only {names}")

    def wait_until(self, condition: Callable[[], object], what: str) -> None:
        """Wait for at most the call's `timeout_ms` of real time."""
        timeout_ms = self.number("timeout_ms", _WAIT_MS)
        if not 0 <= timeout_ms <= _WAIT_MS_MAX:
            raise ControlError(
                400, "out_of_range", f"timeout_ms must be 0 to {_WAIT_MS_MAX}, got {timeout_ms}"
            )
        self.check_all_taken()
        self.cluster.wait_until(
            lambda: self.router.is_closed or condition(), timeout_ms / 1_000, what
        )
