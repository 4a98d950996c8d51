"""The control port's routes: a function for each path, and the table of paths."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from sojourn.core.clock import ManualClock
from sojourn.errors import WrongType
from sojourn.kafka.control.call import Call, ControlError
from sojourn.kafka.control.record_json import as_json, of_json

if TYPE_CHECKING:
    from sojourn.core.purgatory import Purgatory
    from sojourn.kafka.broker import Broker
    from sojourn.kafka.faults import Fault
    from sojourn.kafka.groups import AnyGroup
    from sojourn.kafka.security.security import Security
    from sojourn.kafka.topic import Topic

# The cluster, its brokers and its clock.


def index(call: Call) -> Any:
    """The paths of this port"""
    return {
        "routes": [
            {"method": method, "path": path, "does": handler.__doc__}
            for method, path, handler in ROUTES
        ]
    }


def cluster(call: Call) -> Any:
    """Where clients connect to, and the brokers"""
    return {
        "id": call.cluster.id,
        "bootstrap_servers": call.cluster.bootstrap_servers,
        "security": _security(call.cluster.security),
        "brokers": [_broker(broker) for broker in call.cluster.brokers],
    }


def _security(security: Security) -> dict[str, Any]:
    fields: dict[str, Any] = {"protocol": security.protocol}
    if security.mechanisms:
        fields["mechanisms"] = list(security.mechanisms)
    if security.certificates is not None:
        fields["ca_file"] = security.certificates.ca_file
        fields["ca_pem"] = security.certificates.ca_pem.decode()
    return fields


def _broker(broker: Broker) -> dict[str, Any]:
    return {
        "id": broker.id,
        "host": broker.host,
        "port": broker.port,
        "alive": broker.is_alive,
        "connections": broker.door.connections,
    }


def stop_broker(call: Call) -> Any:
    """Stop a broker as if it had crashed"""
    call.cluster.stop_broker(call.broker().id)
    return _broker(call.broker())


def start_broker(call: Call) -> Any:
    """Start a broker that was stopped"""
    call.cluster.start_broker(call.broker().id)
    return _broker(call.broker())


def clock(call: Call) -> Any:
    """The time at the brokers"""
    return {
        "now_ms": call.cluster.now_ms(),
        "wall_ms": call.cluster.wall_ms(),
        "manual": isinstance(call.cluster.clock, ManualClock),
    }


def advance(call: Call) -> Any:
    """Move the clock by {"ms": …}; the answer comes when everything due has happened"""
    ms = call.number("ms")
    call.check_all_taken()
    manual_clock = call.cluster.clock
    if not isinstance(manual_clock, ManualClock):
        raise ControlError(
            409,
            "clock_runs",
            "this cluster uses the system's clock, which cannot be moved",
            "start it with --manual-clock",
        )
    with call.router.clock_lock:
        manual_clock.advance(ms)
    return clock(call)


# Faults.


def faults(call: Call) -> Any:
    """The scripted faults, with the hits of each"""
    return {"faults": [fault.as_dict() for fault in call.cluster.faults.listed()]}


def add_fault(call: Call) -> Any:
    """Script a fault: {"do": "answer" | "delay" | "drop" | "lose" | "certificate", …}"""
    verb = call.take("do", str)
    verbs: Mapping[str, Callable[..., Fault]] = {
        "answer": call.cluster.faults.answer,
        "delay": call.cluster.faults.delay,
        "drop": call.cluster.faults.drop,
        "lose": call.cluster.faults.lose,
        "certificate": call.cluster.faults.certificate,
    }
    if verb not in verbs:
        raise ControlError(400, "bad_fault", f"do must be one of {', '.join(verbs)}, got {verb!r}")
    try:
        return verbs[verb](**call.rest()).as_dict()
    except TypeError as error:  # a name that the verb does not take, or one that it misses
        if isinstance(error, WrongType):
            raise
        reason = str(error).partition(") ")[2] or str(error)
        raise ControlError(400, "bad_fault", f"{verb} {reason}") from None


def fault(call: Call) -> Any:
    """One fault; with ?hits=N once it has so many hits"""
    fault = call.fault()
    hits = call.number("hits", 0)
    call.wait_until(lambda: fault.hits >= hits, f"{hits} hits of {fault!r}")
    return fault.as_dict()


def end_fault(call: Call) -> Any:
    """End a fault"""
    ended = call.fault()
    ended.remove()
    return ended.as_dict()


def end_faults(call: Call) -> Any:
    """End all faults"""
    call.cluster.faults.clear()
    return faults(call)


# Topics, their partitions and records.


def topics(call: Call) -> Any:
    """The topics"""
    with call.cluster.agenda:
        return {"topics": [_topic(one) for one in call.cluster.controller.topics.values()]}


def _topic(topic: Topic) -> dict[str, Any]:
    return {
        "name": topic.name,
        "id": str(topic.id),
        "partitions": [
            {
                "partition": one.index,
                "leader": one.leader,
                "replicas": list(one.replicas),
                "in_sync": sorted(one.isr),
                "start_offset": one.log.start_offset,
                "high_watermark": one.high_watermark,
                "end_offset": one.end_offset,
            }
            for one in topic.partitions
        ],
    }


def create_topic(call: Call) -> Any:
    """Create a topic: {"name": …, "partitions": 1, "replication_factor": 1, "config": {}}"""
    name = call.take("name", str)
    partitions, replicas = call.number("partitions", 1), call.number("replication_factor", 1)
    config = call.take("config", dict, {})
    call.check_all_taken()
    return _topic(call.cluster.create_topic(name, partitions, replicas, config))


def topic(call: Call) -> Any:
    """One topic, with its partitions"""
    with call.cluster.agenda:
        return _topic(call.topic())


def delete_topic(call: Call) -> Any:
    """Delete a topic with its records"""
    name = call.topic().name
    call.cluster.delete_topic(name)
    return {"name": name}


def compact(call: Call) -> Any:
    """Compact a topic now"""
    name = call.topic().name
    call.cluster.compact(name)
    return topic(call)


def records(call: Call) -> Any:
    """A topic's records, ?partition=N of one; with ?committed=false also those that are not"""
    name = call.topic().name
    partition = call.number("partition", None)
    committed = str(call.take("committed", str, "true")).lower() != "false"
    call.check_all_taken()
    read = call.cluster.records(name, partition, committed=committed)
    return {"records": [as_json(record) for record in read]}


def append(call: Call) -> Any:
    """Append {"partition": 0, "records": ["text", {"key": …, "value": …, "headers": {}}]}"""
    name = call.topic().name
    partition = call.number("partition", 0)
    given = call.take("records", list)
    call.check_all_taken()
    appended = call.cluster.append(name, [of_json(record) for record in given], partition)
    return {"records": [as_json(record) for record in appended]}


def move_leader(call: Call) -> Any:
    """Make another replica the leader: {"broker": …}"""
    partition, broker = call.partition(), call.number("broker")
    call.check_all_taken()
    call.cluster.move_leader(partition.topic.name, partition.index, broker)
    return topic(call)


def pause(call: Call) -> Any:
    """Stop this replica from fetching"""
    partition = call.partition()
    call.cluster.pause_follower(call.broker().id, partition.topic.name, partition.index)
    return topic(call)


def lag(call: Call) -> Any:
    """Delay each fetch of this replica by {"ms": …}"""
    partition, ms = call.partition(), call.number("ms")
    call.check_all_taken()
    call.cluster.lag(call.broker().id, partition.topic.name, partition.index, ms)
    return topic(call)


def resume(call: Call) -> Any:
    """Let this replica fetch again, without lag"""
    partition = call.partition()
    call.cluster.resume(call.broker().id, partition.topic.name, partition.index)
    return topic(call)


# What waits.


def groups(call: Call) -> Any:
    """The groups"""
    with call.cluster.agenda:
        return {"groups": [_group(one) for one in call.cluster.groups.values()]}


def group(call: Call) -> Any:
    """One group, with its committed offsets; with ?state=Stable once it is"""
    state = call.take("state", str, None)

    def has_state() -> bool:
        present = call.cluster.groups.get(call.path["group"])
        return present is not None and present.state.value == state

    if state is not None:
        call.wait_until(has_state, f"group {call.path['group']} in state {state}")
    with call.cluster.agenda:
        one = call.group()
        offsets = call.cluster.groups.store.offsets(one.group_id)
        return _group(one) | {
            "offsets": [
                {"topic": topic, "partition": partition, "offset": committed.offset}
                for (topic, partition), committed in sorted(offsets.items())
            ]
        }


def _group(group: AnyGroup) -> dict[str, Any]:
    return {
        "id": group.group_id,
        "state": group.state.value,
        "generation": group.generation,
        "members": len(group.members),
    }


def purgatories(call: Call) -> Any:
    """How many requests of each kind wait, and how many have ended"""
    return {"purgatories": [_purgatory(one) for one in call.cluster.purgatories]}


def purgatory(call: Call) -> Any:
    """One purgatory; with ?watched=N once N wait, with ?expired=N once N have expired"""
    purgatory = call.purgatory()
    watched, expired = call.number("watched", 0), call.number("expired", 0)

    def is_reached() -> bool:
        return purgatory.watched >= watched and (
            not expired or purgatory.metrics().expired >= expired
        )

    call.wait_until(is_reached, f"{watched} requests in {purgatory.name}")
    return _purgatory(purgatory)


def _purgatory(purgatory: Purgatory) -> dict[str, Any]:
    metrics = purgatory.metrics()
    return {
        "name": purgatory.name,
        "watched": metrics.watched,
        "delayed": metrics.delayed,
        "completed": metrics.completed,
        "expired": metrics.expired,
    }


_REPLICA = "/topics/{topic}/partitions/{partition}/replicas/{broker}"

#: Method, path and handler.
ROUTES: list[tuple[str, str, Callable[[Call], Any]]] = [
    ("GET", "/", index),
    ("GET", "/cluster", cluster),
    ("POST", "/brokers/{broker}/stop", stop_broker),
    ("POST", "/brokers/{broker}/start", start_broker),
    ("GET", "/clock", clock),
    ("POST", "/clock/advance", advance),
    ("GET", "/faults", faults),
    ("POST", "/faults", add_fault),
    ("DELETE", "/faults", end_faults),
    ("GET", "/faults/{fault}", fault),
    ("DELETE", "/faults/{fault}", end_fault),
    ("GET", "/topics", topics),
    ("POST", "/topics", create_topic),
    ("GET", "/topics/{topic}", topic),
    ("DELETE", "/topics/{topic}", delete_topic),
    ("POST", "/topics/{topic}/compact", compact),
    ("GET", "/topics/{topic}/records", records),
    ("POST", "/topics/{topic}/records", append),
    ("POST", "/topics/{topic}/partitions/{partition}/leader", move_leader),
    ("POST", f"{_REPLICA}/pause", pause),
    ("POST", f"{_REPLICA}/lag", lag),
    ("POST", f"{_REPLICA}/resume", resume),
    ("GET", "/groups", groups),
    ("GET", "/groups/{group}", group),
    ("GET", "/purgatories", purgatories),
    ("GET", "/purgatories/{purgatory}", purgatory),
]
