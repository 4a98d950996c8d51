"""CreateTopics and CreatePartitions.

Each topic is checked and answered separately. The answer waits until

    A  every partition that was created has a leader
    B  the request expires: REQUEST_TIMED_OUT for topics with a partition that has none

A request with a timeout ≤ 0 does nothing and is answered REQUEST_TIMED_OUT, as with KRaft; with
ZooKeeper such topics were created. A request with `validate_only` creates nothing and does not
wait.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from sojourn.kafka.answer_parts import NO_ID
from sojourn.kafka.apis.configs import config_entries
from sojourn.kafka.controller import METADATA
from sojourn.kafka.delayed import DelayedRequest
from sojourn.kafka.internal_topics import CLUSTER_METADATA
from sojourn.kafka.quota import Throttle
from sojourn.kafka.refusal import Refused
from sojourn.kafka.settings.definitions import InvalidConfig
from sojourn.kafka.settings.layers import Settings
from sojourn.kafka.topic import Assignment, Topic, name_error
from sojourn.kafka.wire import ErrorCode, milliseconds

if TYPE_CHECKING:
    from sojourn.kafka.broker import Broker, Context, Reply
    from sojourn.kafka.controller import Controller


class TopicResult:
    """One topic of a request, and its answer."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.error = ErrorCode.none
        self.message: str | None = None
        self.topic: Topic | None = None  # set if it, or partitions of it, were created
        self.assignment: Assignment = []
        self.settings: Settings | None = None

    def set_error(self, error: ErrorCode, message: str | None = None) -> None:
        self.error = error
        self.message = message

    @property
    def has_leaders(self) -> bool:
        return self.topic is None or all(p.leader >= 0 for p in self.topic.partitions)


class DelayedTopics(DelayedRequest):
    """New partitions that wait for leaders."""

    def __init__(
        self,
        timeout_ms: int,
        broker: Broker,
        results: Sequence[TopicResult],
        answer: Callable[[], None],
    ) -> None:
        super().__init__(timeout_ms, broker.cluster.agenda)
        self.results = results
        self.answer = answer

    def try_complete(self) -> bool:
        return all(result.has_leaders for result in self.results)  # case A

    def on_complete(self) -> None:
        for result in self.results:
            if not result.has_leaders:
                result.set_error(ErrorCode.request_timed_out, "a partition has no leader")  # case B
        self.answer()


def _answer_when_leaders_exist(
    request: Any, context: Context, results: Sequence[TopicResult], answer: Callable[[], None]
) -> None:
    """Answer now, or when every new partition has a leader."""
    created = [result for result in results if result.topic is not None]
    if not created:
        answer()
    else:
        timeout_ms = milliseconds(request.timeout)
        waiting = DelayedTopics(timeout_ms, context.broker, created, answer)
        context.broker.cluster.purgatories.topic.try_complete_else_watch(waiting, [METADATA])


# Topics.


def create_topics(request: Any, reply: Reply, context: Context) -> None:
    """Create each topic that is valid."""
    controller = context.broker.cluster.controller
    names = Counter(topic.name for topic in request.topics)
    throttle = Throttle(context, strict_from=6)
    results = []
    for name, count in names.items():
        result = TopicResult(name)
        results.append(result)
        if count > 1:
            result.set_error(ErrorCode.invalid_request, "Duplicate topic name.")
            continue
        if milliseconds(request.timeout) <= 0:
            result.set_error(ErrorCode.request_timed_out)
            continue
        request_topic = next(topic for topic in request.topics if topic.name == name)
        try:
            _check_topic(request_topic, controller, result)
            if not request.validate_only:
                throttle.take(len(result.assignment))
                assert result.settings is not None
                result.topic = controller.add_topic(
                    name,
                    result.assignment,
                    result.settings,
                    delay_ms=context.broker.cluster.metadata_delay_ms,
                )
        except Refused as refused:
            result.set_error(refused.code, refused.reason)

    def answer() -> None:
        reply(
            {
                "throttle_time": throttle.ms,
                "topics": [_created_fields(result) for result in results],
            }
        )

    _answer_when_leaders_exist(request, context, results, answer)


def _check_topic(request_topic: Any, controller: Controller, result: TopicResult) -> None:
    """Choose its replicas and check its settings; or Refused."""
    name = request_topic.name
    error = name_error(name)
    if error:
        raise Refused(ErrorCode.invalid_topic_exception, f"Topic name is invalid: {error}")
    if name == CLUSTER_METADATA:
        raise Refused(ErrorCode.invalid_request, f"Creation of internal topic {name} is prohibited")
    if name in controller.topics:
        raise Refused(ErrorCode.topic_already_exists, f"Topic '{name}' already exists.")
    other = controller.collides_with(name)
    if other is not None:
        raise Refused(
            ErrorCode.invalid_topic_exception,
            f"Topic '{name}' collides with existing topic: {other}",
        )
    if request_topic.assignments:
        if request_topic.num_partitions != -1 or request_topic.replication_factor != -1:
            raise Refused(
                ErrorCode.invalid_request,
                "A manual partition assignment was specified, so partition count and "
                "replication factor must be -1.",
            )
        by_index = {a.partition_index: tuple(a.broker_ids) for a in request_topic.assignments}
        if len(by_index) != len(request_topic.assignments) or sorted(by_index) != list(
            range(len(by_index))
        ):
            raise Refused(
                ErrorCode.invalid_replica_assignment,
                "partitions must be numbered from 0, each once",
            )
        result.assignment = [by_index[index] for index in sorted(by_index)]
        _check_assignment(result.assignment, controller, len(result.assignment[0]))
    else:
        settings = controller.settings
        count, factor = request_topic.num_partitions, request_topic.replication_factor
        result.assignment = controller.place(
            settings.number("num.partitions") if count == -1 else count,
            settings.number("default.replication.factor") if factor == -1 else factor,
        )
    config = {entry.name: entry.value for entry in request_topic.configs}
    for key, value in config.items():
        if value is None:
            raise Refused(ErrorCode.invalid_config, f"Null value not supported for {key}")
    try:
        result.settings = controller.topic_settings(config)
    except InvalidConfig as error:
        raise Refused(ErrorCode.invalid_config, str(error)) from None


def _check_assignment(assignment: Assignment, controller: Controller, factor: int) -> None:
    brokers = controller.all_brokers()
    alive = controller.alive_brokers()
    for replicas in assignment:
        error = ""
        if not replicas:
            error = "a partition without replicas"
        elif len(set(replicas)) != len(replicas):
            error = f"{list(replicas)} names a broker twice"
        elif len(replicas) != factor:
            error = "partitions have different numbers of replicas"
        elif any(replica not in brokers for replica in replicas):
            error = f"{list(replicas)} names a broker that does not exist"
        elif not any(replica in alive for replica in replicas):
            error = f"none of the brokers {list(replicas)} is alive"
        if error:
            raise Refused(ErrorCode.invalid_replica_assignment, error)


def _created_fields(result: TopicResult) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "name": result.name,
        "error_code": result.error,
        "error_message": result.message,
        "topic_id": NO_ID,
        "num_partitions": -1,
        "replication_factor": -1,
        "configs": [],
    }
    if result.settings is not None and result.error is ErrorCode.none:
        fields |= {
            # With validate_only, too: an id that it could have had.
            "topic_id": result.topic.id if result.topic else uuid4(),
            "num_partitions": len(result.assignment),
            "replication_factor": len(result.assignment[0]),
            "configs": [
                {
                    name: entry[name]
                    for name in ("name", "value", "read_only", "config_source", "is_sensitive")
                }
                for entry in config_entries(result.settings, None)
            ],
        }
    return fields


# Partitions.


def create_partitions(request: Any, reply: Reply, context: Context) -> None:
    """Add partitions to each topic that is valid."""
    controller = context.broker.cluster.controller
    names = Counter(topic.name for topic in request.topics)
    throttle = Throttle(context, strict_from=3)
    results: list[TopicResult] = []
    for request_topic in request.topics:
        if any(result.name == request_topic.name for result in results):
            continue
        result = TopicResult(request_topic.name)
        results.append(result)
        try:
            if names[request_topic.name] > 1:
                raise Refused(ErrorCode.invalid_request, "Duplicate topic in request.")
            if milliseconds(request.timeout) <= 0:
                raise Refused(ErrorCode.request_timed_out)
            topic = _check_new_partitions(request_topic, controller, result)
            if not request.validate_only:
                throttle.take(len(result.assignment))
                controller.add_partitions(topic, result.assignment)
                result.topic = topic
        except Refused as refused:
            result.set_error(refused.code, refused.reason or None)

    def answer() -> None:
        reply(
            {
                "throttle_time": throttle.ms,
                "results": [
                    {
                        "name": result.name,
                        "error_code": result.error,
                        "error_message": result.message,
                    }
                    for result in results
                ],
            }
        )

    _answer_when_leaders_exist(request, context, results, answer)


def _check_new_partitions(request_topic: Any, controller: Controller, result: TopicResult) -> Topic:
    topic = controller.topics.get(request_topic.name)
    if topic is None:
        raise Refused(ErrorCode.unknown_topic_or_partition)
    added = request_topic.count - len(topic.partitions)
    if added <= 0:
        raise Refused(
            ErrorCode.invalid_partitions,
            f"The topic {topic.name} currently has {len(topic.partitions)} partition(s); "
            f"{request_topic.count} would not be an increase.",
        )
    if request_topic.assignments is None:
        result.assignment = controller.place_more(topic, added)
    else:
        if len(request_topic.assignments) != added:
            raise Refused(
                ErrorCode.invalid_replica_assignment,
                f"Attempted to add {added} additional partition(s), but only "
                f"{len(request_topic.assignments)} assignment(s) were specified.",
            )
        result.assignment = [
            tuple(assignment.broker_ids) for assignment in request_topic.assignments
        ]
        _check_assignment(result.assignment, controller, topic.replication_factor)
    return topic
