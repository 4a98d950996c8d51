"""Answers that say an error, made for a request that no broker has handled.

Where the error stands depends on the API, and on its version: for the whole answer, or once for
each thing that the request names. Which list of the request comes back as which list of the
answer is in the table at the end of this file:

    produce    topic_data[name] / partition_data[index]
                   -> responses[name] / partition_responses[index, error_code]

A fault may be meant for some of the partitions only. Then the request goes on without them, the
broker answers the rest, and the errors are put between its rows:

    asked        orders/0, orders/1, bills/0         the fault is meant for orders/0
    handled      orders/1, bills/0
    answered     orders/1, bills/0, and orders/0 with the error

What reads, and does not name what it reads, is handled as a whole, and the rows are replaced
after that: a fetch in a session, and whoever asks for "all topics".
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from sojourn.kafka import wire
from sojourn.kafka.wire import ErrorCode

if TYPE_CHECKING:
    from sojourn.kafka.broker import Broker
    from sojourn.kafka.fetch.sessions import SessionPartition

TOPIC, PARTITION, OTHER = "topic", "partition", "other"


class Level(NamedTuple):
    """A list of the request, the list of the answer that mirrors it, and the levels below."""

    asked: str
    told: str
    keys: Mapping[str, str]  # the answer's field: the request's, or "" for the row itself
    names: str = OTHER  # what a row stands for
    below: Level | None = None
    error: str = "error_code"
    has_error: bool = False  # of its own, for everything below


class Named(NamedTuple):
    """One thing that a request names: where it stands in it, and which partition it is, if any."""

    path: tuple[int, ...]
    keys: tuple[Mapping[str, Any], ...]  # the answer's keys, for each level
    topic: str | None
    partition: int | None


class Asked:
    """A request, and what it names."""

    def __init__(self, request: wire.Request, broker: Broker) -> None:
        self.api = request.api
        self.payload = request.payload
        self._broker = broker
        self._level = _level_of(request.api.name, request.payload)
        self._is_unnamed = self._reads_unnamed()
        self.named: Sequence[Named] = list(self._walk(self._level))

    def _reads_unnamed(self) -> bool:
        """Whether it reads what it does not name, or not in this request."""
        if self.api.name == "fetch":
            return True
        if self.api.name == "metadata":
            return self.payload.topics is None or self.api.version == 0
        return self.api.name == "describe_topic_partitions" and not self.payload.topics

    def _walk(self, level: Level | None) -> Iterator[Named]:
        if level is None:
            return
        if not self._is_unnamed:
            yield from self._rows(self.payload, level, (), (), None)
        elif self.api.name != "fetch":
            named = {topic.name for topic in self.payload.topics or ()}
            for topic in self._broker.metadata_cache.topics():
                if not named or topic.name in named:
                    yield Named((), ({"name": topic.name, "topic_id": topic.id},), topic.name, None)
        else:
            for name, index in self._fetched():
                key = {"topic": name} if isinstance(name, str) else {"topic_id": name}
                yield Named((), (key, {"partition_index": index}), self._topic_name(name), index)

    def _fetched(self) -> Iterable[SessionPartition]:
        """What is fetched: the session's partitions and those of the request."""
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
    ) -> Iterator[Named]:
        for number, row in enumerate(getattr(owner, level.asked) or ()):
            key = {told: _value(row, asked) for told, asked in level.keys.items()}
            values = [value for value in key.values() if value is not None]
            if level.names == TOPIC:
                topic = self._topic_of(row, values)
            here = (*path, number), (*keys, key)
            if level.below is not None:
                yield from self._rows(row, level.below, *here, topic)
            else:
                yield Named(*here, topic, values[0] if level.names == PARTITION else None)

    def _topic_of(self, row: Any, values: Sequence[Any]) -> str | None:
        if getattr(row, "resource_type", _OF_TOPIC) != _OF_TOPIC:
            return None
        return next(filter(None, map(self._topic_name, values)), None)

    def _topic_name(self, name: Any) -> str | None:
        if isinstance(name, UUID):
            topic = self._broker.cluster.controller.topic_by_id(name)
            return topic.name if topic is not None else None
        return name if isinstance(name, str) else None

    def can_say(self, error: ErrorCode) -> bool:
        """Whether the answer to this request has a place for the error."""
        return bool(self.named) or self._is_for_all(error) or self.api.name == _LOG_DIRS

    def _is_for_all(self, error: ErrorCode) -> bool:
        """Whether this version has one error for all of the answer, and says this one there."""
        if not _has_error(self.api.response):
            return False
        return self.api.name not in _IN_ROWS or error in _OF_FETCH_SESSIONS or not self.named

    def without(self, gone: Sequence[Named]) -> Any:
        """What is left to handle when these are answered, a payload; None if nothing is."""
        payload = self.payload
        if self.api.name == "fetch":  # an error is told at once
            payload = dataclasses.replace(payload, max_wait=type(payload.max_wait)(0))
        elif not self._is_unnamed:
            if len(gone) == len(self.named) and self.api.name != "metadata":
                return None
            assert self._level is not None
            payload = _without(payload, self._level, {one.path for one in gone})
        return payload

    def merged(self, answer: wire.Fields, errors: Iterable[tuple[Named, ErrorCode]]) -> wire.Fields:
        """The broker's answer with these errors in it."""
        fields: wire.Fields = {**blank(self.api.response), **answer}
        for named, error in errors:
            assert self._level is not None
            fields = _put(fields, self.api.response, self._level, named.keys, error)
        return fields

    def refused(self, error: ErrorCode) -> wire.Fields | None:
        """An answer that says this error for the whole request; None if rows have to say it."""
        fields = blank(self.api.response)
        if self._is_for_all(error):
            return {**fields, "error_code": error, "error_message": _WHY}
        if self.api.name == _LOG_DIRS:
            return {
                **fields,
                "results": [{"error_code": error, "log_dir": self._broker.log_dir}],
            }
        if self._level is not None and self._level.has_error:
            rows = self._walk(self._level._replace(below=None))
            return self.merged(fields, [(one, error) for one in rows])
        return None


_LOG_DIRS = "describe_log_dirs"  # its first versions have no error for all of the answer
_OF_TOPIC = 2  # a resource of which settings are asked
_WHY = "a scripted fault"


def can_name(api_name: str, what: str) -> bool:
    """Whether requests of this API name topics, or partitions."""
    levels = list(_TABLE.get(api_name, ()))
    while levels:
        level = levels.pop()
        if level.names == what:
            return True
        if level.below is not None:
            levels.append(level.below)
    return False


def can_say_error(api_name: str) -> bool:
    """Whether an answer of this API has a place for an error."""
    newest = wire.api(api_name, wire.VERSIONS[api_name][1])
    return api_name in _TABLE or _has_error(newest.response)


def blank(entity: Any) -> dict[str, Any]:
    """The fields that this class insists on, with the values they have beside an error."""
    fields: dict[str, Any] = {}
    for field in dataclasses.fields(entity):
        if field.default is dataclasses.MISSING and not wire.is_nullable(field.type):
            kind = str(field.metadata.get("kafka_type", ""))
            for start, value in _BLANKS.items():
                if kind.startswith(start):
                    fields[field.name] = value
    return fields


_BLANKS = {"int": -1, "datetime": 0, "string": "", "bytes": b"", "records": b"", "bool": False}


def _has_error(response: Any) -> bool:
    return any(field.name == "error_code" for field in dataclasses.fields(response))


def _level_of(api_name: str, payload: Any) -> Level | None:
    """The first that this version has."""
    return next((one for one in _TABLE.get(api_name, ()) if hasattr(payload, one.asked)), None)


def _value(row: Any, field: str) -> Any:
    return getattr(row, field, None) if field else row


def _without(owner: Any, level: Level, gone: set[tuple[int, ...]]) -> Any:
    rows = []
    for number, row in enumerate(getattr(owner, level.asked)):
        if (number,) in gone:
            continue
        below = {path[1:] for path in gone if path[0] == number and len(path) > 1}
        if below and level.below is not None:
            row = _without(row, level.below, below)
            if not getattr(row, level.below.asked):
                continue
        rows.append(row)
    return dataclasses.replace(owner, **{level.asked: tuple(rows)})


def _put(
    fields: wire.Fields,
    entity: Any,
    level: Level,
    keys: Sequence[Mapping[str, Any]],
    error: ErrorCode,
) -> wire.Fields:
    """The same fields, with the error in the row of these keys, which is added if there is none."""
    told, row_entity = level.told, wire.nested_in(entity, level.told)
    key = {name: value for name, value in keys[0].items() if value is not None}
    rows = list(fields.get(told) or ())
    at = next((n for n, row in enumerate(rows) if _matches(row, key)), len(rows))
    if at == len(rows):
        rows.append({**blank(row_entity), **key})
    if level.below is not None and len(keys) > 1:
        rows[at] = _put(rows[at], row_entity, level.below, keys[1:], error)
    else:
        rows[at] = {**blank(row_entity), **key, level.error: error, "error_message": _WHY}
    return {**fields, told: rows}


def _matches(row: Mapping[str, Any], key: Mapping[str, Any]) -> bool:
    """Whether it is this row: a topic may be told by its name and its id, or by one of them."""
    return any(name in row and row[name] == value for name, value in key.items()) and all(
        row.get(name, value) == value for name, value in key.items()
    )


# The table.


def _topics(
    asked: str = "topics",
    told: str = "topics",
    key: str = "name",
    below: Level | None = None,
    **more: str,
) -> Level:
    return Level(asked, told, {key: key, **more}, TOPIC, below)


_PARTITIONS = Level("partitions", "partitions", {"partition_index": "partition_index"}, PARTITION)
_INDEXES = Level("partition_indexes", "partitions", {"partition_index": ""}, PARTITION)
_RESULTS = Level(
    "partitions",
    "results_by_partition",
    {"partition_index": ""},
    PARTITION,
    error="partition_error_code",
)
_RESOURCE = {"resource_name": "resource_name", "resource_type": "resource_type"}

_TABLE: Mapping[str, tuple[Level, ...]] = {
    "produce": (
        _topics(
            "topic_data",
            "responses",
            topic_id="topic_id",
            below=Level("partition_data", "partition_responses", {"index": "index"}, PARTITION),
        ),
    ),
    "fetch": (
        _topics(
            told="responses",
            key="topic",
            topic_id="topic_id",
            below=_PARTITIONS._replace(keys={"partition_index": "partition"}),
        ),
    ),
    "list_offsets": (_topics(below=_PARTITIONS),),
    "metadata": (_topics(topic_id="topic_id"),),
    "offset_commit": (_topics(below=_PARTITIONS),),
    "offset_fetch": (
        Level(
            "groups",
            "groups",
            {"group_id": "group_id"},
            below=_topics(below=_INDEXES),
            has_error=True,
        ),
        _topics(below=_INDEXES),
    ),
    "find_coordinator": (Level("coordinator_keys", "coordinators", {"key": ""}),),
    "describe_groups": (Level("groups", "groups", {"group_id": ""}),),
    "create_topics": (_topics(),),
    "delete_topics": (
        _topics(told="responses", topic_id="topic_id"),
        Level("topic_names", "responses", {"name": ""}, TOPIC),
    ),
    "delete_records": (_topics(below=_PARTITIONS),),
    "offset_for_leader_epoch": (
        _topics(key="topic", below=_PARTITIONS._replace(keys={"partition": "partition"})),
    ),
    "describe_configs": (Level("resources", "results", _RESOURCE, TOPIC),),
    "alter_configs": (Level("resources", "responses", _RESOURCE, TOPIC),),
    "incremental_alter_configs": (Level("resources", "responses", _RESOURCE, TOPIC),),
    "create_partitions": (_topics(told="results"),),
    "delete_groups": (Level("groups_names", "results", {"group_id": ""}),),
    "elect_leaders": (
        _topics(
            "topic_partitions",
            "replica_election_results",
            "topic",
            Level("partitions", "partition_result", {"partition_id": ""}, PARTITION),
        ),
    ),
    "alter_partition_reassignments": (_topics(told="responses", below=_PARTITIONS),),
    "offset_delete": (_topics(below=_PARTITIONS),),
    "describe_topic_partitions": (_topics(),),
    "add_partitions_to_txn": (
        Level(
            "transactions",
            "results_by_transaction",
            {"transactional_id": "transactional_id"},
            below=_topics(told="topic_results", below=_RESULTS),
        ),
        _topics("v3_and_below_topics", "results_by_topic_v3_and_below", below=_RESULTS),
    ),
    "write_txn_markers": (
        Level(
            "markers",
            "markers",
            {"producer_id": "producer_id"},
            below=_topics(below=_INDEXES),
        ),
    ),
    "txn_offset_commit": (_topics(below=_PARTITIONS),),
    "describe_producers": (_topics(below=_INDEXES),),
    "describe_transactions": (
        Level("transactional_ids", "transaction_states", {"transactional_id": ""}),
    ),
    "consumer_group_describe": (Level("group_ids", "groups", {"group_id": ""}),),
}

# They have an error for the whole answer as well, and brokers say there only what is wrong with
# the whole: clients look for the error of a partition in its row.
_IN_ROWS = frozenset({"fetch", "elect_leaders", "alter_partition_reassignments"})

_OF_FETCH_SESSIONS = (
    ErrorCode.fetch_session_id_not_found,
    ErrorCode.invalid_fetch_session_epoch,
    ErrorCode.fetch_session_topic_id_error,
    ErrorCode.inconsistent_topic_id,
)
