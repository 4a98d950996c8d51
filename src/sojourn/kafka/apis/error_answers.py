"""Answers with an error, built for a request that no broker has handled.

Where the error stands depends on the API and its version: once for the whole answer, or once for
each item that the request names (answer_shapes.py has the table).

A fault may be meant for some partitions only. Then the request goes on without them, the broker
answers the rest, and the errors are merged into its answer:

    asked        orders/0, orders/1, bills/0         the fault is meant for orders/0
    handled      orders/1, bills/0
    answered     orders/1, bills/0, and orders/0 with the error

A request that does not name what it reads is handled as a whole, and the rows are replaced after
that: a fetch in a session, and requests for "all topics".
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from sojourn.kafka import wire
from sojourn.kafka.apis.answer_shapes import PARTITION, TOPIC, Level, has_error, level_of
from sojourn.kafka.wire import ErrorCode

if TYPE_CHECKING:
    from sojourn.kafka.broker import Broker
    from sojourn.kafka.fetch.sessions import SessionPartition

_LOG_DIRS = "describe_log_dirs"  # its first versions have no error for the whole answer
_TOPIC_RESOURCE = 2  # a resource type of DescribeConfigs
_MESSAGE = "a scripted fault"

# These also have an error for the whole answer, but clients look for a partition's in its row.
_ERROR_IN_ROWS = frozenset({"fetch", "elect_leaders", "alter_partition_reassignments"})

_FETCH_SESSION_ERRORS = (
    ErrorCode.fetch_session_id_not_found,
    ErrorCode.invalid_fetch_session_epoch,
    ErrorCode.fetch_session_topic_id_error,
    ErrorCode.inconsistent_topic_id,
)


class NamedItem(NamedTuple):
    """An item that a request names: its place in the request, and its partition, if any."""

    path: tuple[int, ...]
    keys: tuple[Mapping[str, Any], ...]  # the answer's keys, for each level
    topic: str | None
    partition: int | None


class ErrorAnswers:
    """The answers with errors to one request."""

    def __init__(self, request: wire.Request, broker: Broker) -> None:
        self.api = request.api
        self.payload = request.payload
        self._broker = broker
        self._level = level_of(request.api.name, request.payload)
        self._names_nothing = self._reads_without_names()
        self.items: Sequence[NamedItem] = list(self._walk(self._level))

    def _reads_without_names(self) -> bool:
        """Whether it reads more than it names."""
        if self.api.name == "fetch":
            return True
        if self.api.name == "metadata":
            return self.payload.topics is None or self.api.version == 0
        return self.api.name == "describe_topic_partitions" and not self.payload.topics

    def _walk(self, level: Level | None) -> Iterator[NamedItem]:
        if level is None:
            return
        if not self._names_nothing:
            yield from self._rows(self.payload, level, (), (), None)
        elif self.api.name != "fetch":
            named = {topic.name for topic in self.payload.topics or ()}
            for topic in self._broker.metadata_cache.topics():
                if not named or topic.name in named:
                    yield NamedItem(
                        (), ({"name": topic.name, "topic_id": topic.id},), topic.name, None
                    )
        else:
            for name, index in self._fetched():
                key = {"topic": name} if isinstance(name, str) else {"topic_id": name}
                yield NamedItem(
                    (), (key, {"partition_index": index}), self._topic_name(name), index
                )

    def _fetched(self) -> Iterable[SessionPartition]:
        """The partitions of the session and of the request."""
        session = self._broker.fetch_sessions.peek(getattr(self.payload, "session_id", 0))
        places = dict.fromkeys(session.partitions if session is not None else ())
        for row in self.payload.topics:
            name = getattr(row, "topic", None) or getattr(row, "topic_id", None)
            places |= dict.fromkeys((name, one.partition) for one in row.partitions)
        return places

    def _rows(
        self,
        owner: Any,
        level: Level,
        path: tuple[int, ...],
        keys: tuple[Mapping[str, Any], ...],
        topic: str | None,
    ) -> Iterator[NamedItem]:
        for number, row in enumerate(getattr(owner, level.request_list) or ()):
            key = {field: _value(row, request_field) for field, request_field in level.keys.items()}
            values = [value for value in key.values() if value is not None]
            if level.names == TOPIC:
                topic = self._topic_of(row, values)
            here = (*path, number), (*keys, key)
            if level.below is not None:
                yield from self._rows(row, level.below, *here, topic)
            else:
                yield NamedItem(*here, topic, values[0] if level.names == PARTITION else None)

    def _topic_of(self, row: Any, values: Sequence[Any]) -> str | None:
        if getattr(row, "resource_type", _TOPIC_RESOURCE) != _TOPIC_RESOURCE:
            return None
        return next(filter(None, map(self._topic_name, values)), None)

    def _topic_name(self, name: Any) -> str | None:
        if isinstance(name, UUID):
            topic = self._broker.cluster.controller.topic_by_id(name)
            return topic.name if topic is not None else None
        return name if isinstance(name, str) else None

    def can_carry(self, error: ErrorCode) -> bool:
        """Whether the answer to this request has a place for the error."""
        return bool(self.items) or self._is_for_all(error) or self.api.name == _LOG_DIRS

    def _is_for_all(self, error: ErrorCode) -> bool:
        """Whether this version has one error for the whole answer, and this error belongs there."""
        if not has_error(self.api.response):
            return False
        return (
            self.api.name not in _ERROR_IN_ROWS or error in _FETCH_SESSION_ERRORS or not self.items
        )

    def without(self, answered: Sequence[NamedItem]) -> Any:
        """The request's payload without these items; None if nothing is left."""
        payload = self.payload
        if self.api.name == "fetch":  # an error is answered at once
            payload = dataclasses.replace(payload, max_wait=type(payload.max_wait)(0))
        elif not self._names_nothing:
            if len(answered) == len(self.items) and self.api.name != "metadata":
                return None
            assert self._level is not None
            payload = _without(payload, self._level, {item.path for item in answered})
        return payload

    def merge(
        self, answer: wire.Fields, errors: Iterable[tuple[NamedItem, ErrorCode]]
    ) -> wire.Fields:
        """The broker's answer with these errors in it."""
        fields: wire.Fields = {**blank(self.api.response), **answer}
        for item, error in errors:
            assert self._level is not None
            fields = _put(fields, self.api.response, self._level, item.keys, error)
        return fields

    def whole(self, error: ErrorCode) -> wire.Fields | None:
        """An answer with this error for the whole request; None if it belongs in rows."""
        fields = blank(self.api.response)
        if self._is_for_all(error):
            return {**fields, "error_code": error, "error_message": _MESSAGE}
        if self.api.name == _LOG_DIRS:
            return {
                **fields,
                "results": [{"error_code": error, "log_dir": self._broker.log_dir}],
            }
        if self._level is not None and self._level.has_error:
            rows = self._walk(self._level._replace(below=None))
            return self.merge(fields, [(item, error) for item in rows])
        return None


def blank(entity: Any) -> dict[str, Any]:
    """The required fields of this class, with the values they have beside an error."""
    fields: dict[str, Any] = {}
    for field in dataclasses.fields(entity):
        if field.default is dataclasses.MISSING and not wire.is_nullable(field.type):
            kind = str(field.metadata.get("kafka_type", ""))
            for start, value in _BLANKS.items():
                if kind.startswith(start):
                    fields[field.name] = value
    return fields


_BLANKS = {"int": -1, "datetime": 0, "string": "", "bytes": b"", "records": b"", "bool": False}


def _value(row: Any, field: str) -> Any:
    return getattr(row, field, None) if field else row


def _without(owner: Any, level: Level, removed: set[tuple[int, ...]]) -> Any:
    rows = []
    for number, row in enumerate(getattr(owner, level.request_list)):
        if (number,) in removed:
            continue
        below = {path[1:] for path in removed if path[0] == number and len(path) > 1}
        if below and level.below is not None:
            row = _without(row, level.below, below)
            if not getattr(row, level.below.request_list):
                continue
        rows.append(row)
    return dataclasses.replace(owner, **{level.request_list: tuple(rows)})


def _put(
    fields: wire.Fields,
    entity: Any,
    level: Level,
    keys: Sequence[Mapping[str, Any]],
    error: ErrorCode,
) -> wire.Fields:
    """The same fields, with the error in the row of these keys, which is added if missing."""
    answered, row_entity = level.answer_list, wire.nested_in(entity, level.answer_list)
    key = {name: value for name, value in keys[0].items() if value is not None}
    rows = list(fields.get(answered) or ())
    at = next((n for n, row in enumerate(rows) if _matches(row, key)), len(rows))
    if at == len(rows):
        rows.append({**blank(row_entity), **key})
    if level.below is not None and len(keys) > 1:
        rows[at] = _put(rows[at], row_entity, level.below, keys[1:], error)
    else:
        rows[at] = {**blank(row_entity), **key, level.error: error, "error_message": _MESSAGE}
    return {**fields, answered: rows}


def _matches(row: Mapping[str, Any], key: Mapping[str, Any]) -> bool:
    """Whether it is this row: a topic may have its name, its id, or both."""
    return any(name in row and row[name] == value for name, value in key.items()) and all(
        row.get(name, value) == value for name, value in key.items()
    )
