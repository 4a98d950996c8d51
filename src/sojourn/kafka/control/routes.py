"""What the control port can be asked: a function for each path, and the table of paths."""

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
    from sojourn.kafka.faults.faults import Fault
    from sojourn.kafka.groups.group import Group
    from sojourn.kafka.security.security import Security
    from sojourn.kafka.topic import Topic

# The cluster, its brokers and its clock.


def index(call: Call) -> Any:
    """What there is"""
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
    told: dict[str, Any] = {"protocol": security.protocol}
    if security.mechanisms:
        told["mechanisms"] = list(security.mechanisms)
    if security.certificates is not None:
        told["ca_file"] = security.certificates.ca_file
        told["ca_pem"] = security.certificates.ca_pem.decode()
    return told


def _broker(broker: Broker) -> dict[str, Any]:
    return {
        "id": broker.id,
        "host": broker.host,
        "port": broker.port,
        "alive": broker.is_alive,
        "connections": broker.door.connections,
    }


def stop_broker(call: Call) -> Any:
    """Stop a broker as if it had died"""
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
    """Move the clock by {"ms": …}; all that falls due has happened when this is answered"""
    ms = call.number("ms")
    call.check_all_taken()
    moved = call.cluster.clock
    if not isinstance(moved, ManualClock):
        raise ControlError(
            409,
            "clock_runs",
            "this cluster goes by the system's clock, which nobody moves",
            "start it with --manual-clock",
        )
    with call.api.moving:
        moved.advance(ms)
    return clock(call)


# Faults.


def faults(call: Call) -> Any:
    """The scripted faults, with how often each has struck"""
    return {"faults": [fault.as_dict() for fault in call.cluster.faults.listed()]}


def add_fault(call: Call) -> Any:
    """Script a fault: {"do": "answer" | "delay" | "drop" | "lose" | "certificate", …}"""
    what = call.take("do", str)
    verbs: Mapping[str, Callable[..., Fault]] = {
        "answer": call.cluster.faults.answer,
        "delay": call.cluster.faults.delay,
        "drop": call.cluster.faults.drop,
        "lose": call.cluster.faults.lose,
        "certificate": call.cluster.faults.certificate,
    }
    if what not in verbs:
        raise ControlError(400, "bad_fault", f"do must be one of {', '.join(verbs)}, got {what!r}")
    try:
        return verbs[what](**call.rest()).as_dict()
    except TypeError as error:  # a name that the verb does not take, or one that it misses
        if isinstance(error, WrongType):
            raise
        told = str(error).partition(") ")[2] or str(error)
        raise ControlError(400, "bad_fault", f"{what} {told}") from None


def fault(call: Call) -> Any:
    """One fault; with ?hits=N once it has struck so often"""
    found = call.fault()
    hits = call.number("hits", 0)
    call.wait_until(lambda: found.hits >= hits, f"{hits} hits of {found!r}")
    return found.as_dict()


def end_fault(call: Call) -> Any:
    """End a fault"""
    found = call.fault()
    found.remove()
    return found.as_dict()


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
    found = call.topic()
    call.cluster.delete_topic(found.name)
    return {"name": found.name}


def records(call: Call) -> Any:
    """A topic's records, ?partition=N of one; with ?committed=false also those that are not"""
    name = call.topic().name
    partition = call.number("partition", None)
    committed = str(call.take("committed", str, "true")).lower() != "false"
    call.check_all_taken()
    found = call.cluster.records(name, partition, committed=committed)
    return {"records": [as_json(one) for one in found]}


def append(call: Call) -> Any:
    """Append {"partition": 0, "records": ["text", {"key": …, "value": …, "headers": {}}]}"""
    name = call.topic().name
    partition = call.number("partition", 0)
    given = call.take("records", list)
    call.check_all_taken()
    placed = call.cluster.append(name, [of_json(one) for one in given], partition)
    return {"records": [as_json(one) for one in placed]}


def move_leader(call: Call) -> Any:
    """Have another replica lead: {"broker": …}"""
    partition, broker = call.partition(), call.number("broker")
    call.check_all_taken()
    call.cluster.move_leader(partition.topic.name, partition.index, broker)
    return topic(call)


def pause(call: Call) -> Any:
    """Have this replica fetch nothing"""
    partition = call.partition()
    call.cluster.pause_follower(call.broker().id, partition.topic.name, partition.index)
    return topic(call)


def lag(call: Call) -> Any:
    """Have this replica take {"ms": …} over each fetch"""
    partition, ms = call.partition(), call.number("ms")
    call.check_all_taken()
    call.cluster.lag(call.broker().id, partition.topic.name, partition.index, ms)
    return topic(call)


def resume(call: Call) -> Any:
    """Have this replica fetch as fast as it can"""
    partition = call.partition()
    call.cluster.resume(call.broker().id, partition.topic.name, partition.index)
    return topic(call)


# What waits.


def groups(call: Call) -> Any:
    """The groups"""
    with call.cluster.agenda:
        return {"groups": [_group(one) for one in call.cluster.groups.values()]}


def group(call: Call) -> Any:
    """One group, with what it has committed; with ?state=Stable once it is"""
    state = call.take("state", str, None)

    def is_there() -> bool:
        found = call.cluster.groups.get(call.path["group"])
        return found is not None and found.state.value == state

    if state is not None:
        call.wait_until(is_there, f"group {call.path['group']} in state {state}")
    with call.cluster.agenda:
        found = call.group()
        offsets = call.cluster.groups.store.offsets(found.group_id)
        return _group(found) | {
            "offsets": [
                {"topic": topic, "partition": partition, "offset": committed.offset}
                for (topic, partition), committed in sorted(offsets.items())
            ]
        }


def _group(group: Group) -> dict[str, Any]:
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
    """One purgatory; with ?watched=N once so many wait there, with ?expired=N once so many have"""
    found = call.purgatory()
    watched, expired = call.number("watched", 0), call.number("expired", 0)

    def has_come() -> bool:
        return found.watched >= watched and (not expired or found.metrics().expired >= expired)

    call.wait_until(has_come, f"{watched} requests in {found.name}")
    return _purgatory(found)


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

#: Method, path and what is done.
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
