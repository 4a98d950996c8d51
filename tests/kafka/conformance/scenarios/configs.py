"""Settings of topics and brokers: described and changed."""

from __future__ import annotations

from typing import Any

from tests.kafka.conformance.scenarios.scenario import scenario, versions
from tests.kafka.conformance.world import World

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)


def _described(kind: int, name: str, keys: list[str] | None = None, **more: Any) -> Any:
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
    return {"resources": [resource], **more}


@scenario()
def describe_configs(world: World) -> None:
    world.topic("t", config={"retention.ms": "5000"})
    for version in versions("describe_configs"):
        for step, fields in {
            "a topic": _described(TOPIC, "t"),
            "a topic with synonyms": _described(TOPIC, "t", include_synonyms=True),
            "two of a topic": _described(TOPIC, "t", ["retention.ms", "cleanup.policy", "none"]),
            "none of a topic": _described(TOPIC, "t", []),
            "an unknown topic": _described(TOPIC, "u"),
            "a bad topic": _described(TOPIC, "a b"),
            "an empty topic": _described(TOPIC, ""),
            "a broker's few": _described(BROKER, "1", ["log.dirs", "num.partitions", "node.id"]),
            "the cluster": _described(BROKER, ""),
            "another broker": _described(BROKER, "2"),
            "a broker of no number": _described(BROKER, "one"),
            "an unknown type": _described(77, "x"),
            "a group": _described(GROUP, "g"),
            "metrics": _described(METRICS, "m"),
        }.items():
            world.ask(step, "describe_configs", version, **fields)
    world.ask("a broker", "describe_configs", 4, **_described(BROKER, "1"))
    world.ask(
        "a broker with synonyms",
        "describe_configs",
        4,
        **_described(BROKER, "1", include_synonyms=True),
    )


def _changed(kind: int, name: str, *changes: tuple[int, str, str | None], **more: Any) -> Any:
    rows = [{"config_operation": how, "name": key, "value": value} for how, key, value in changes]
    resource = {"resource_type": kind, "resource_name": name, "configs": rows}
    return {"resources": [resource], "validate_only": False, **more}


@scenario()
def alter_topic_configs(world: World) -> None:
    world.topic("t")
    world.topic("u", config={"cleanup.policy": "compact", "retention.ms": "7"})

    def look(step: str) -> None:
        keys = ["retention.ms", "cleanup.policy", "max.message.bytes", "min.insync.replicas"]
        for topic in ("t", "u"):
            world.ask(f"{step}: {topic}", "describe_configs", 4, **_described(TOPIC, topic, keys))

    for version in versions("incremental_alter_configs"):
        for step, fields in {
            "set": _changed(TOPIC, "t", (SET, "retention.ms", "5000")),
            "set a bad number": _changed(TOPIC, "t", (SET, "retention.ms", "soon")),
            "set one good, one bad": _changed(
                TOPIC, "t", (SET, "retention.ms", "6000"), (SET, "retention.bytes", "x")
            ),
            "set null": _changed(TOPIC, "t", (SET, "retention.ms", None)),
            "set an unknown": _changed(TOPIC, "t", (SET, "no.such", "1")),
            "delete": _changed(TOPIC, "t", (DELETE, "retention.ms", None)),
            "delete again": _changed(TOPIC, "t", (DELETE, "retention.ms", None)),
            "delete an unknown": _changed(TOPIC, "t", (DELETE, "no.such", None)),
            "append": _changed(TOPIC, "t", (APPEND, "cleanup.policy", "compact")),
            "append again": _changed(TOPIC, "t", (APPEND, "cleanup.policy", "compact")),
            "subtract": _changed(TOPIC, "t", (SUBTRACT, "cleanup.policy", "delete")),
            "append to no list": _changed(TOPIC, "t", (APPEND, "retention.ms", "5")),
            "another operation": _changed(TOPIC, "t", (7, "retention.ms", "5")),
            "twice": _changed(TOPIC, "t", (SET, "retention.ms", "5"), (SET, "retention.ms", "6")),
            "an unknown topic": _changed(TOPIC, "v", (SET, "retention.ms", "5")),
            "nothing": _changed(TOPIC, "t"),
            "only validated": _changed(
                TOPIC, "t", (SET, "retention.ms", "999"), validate_only=True
            ),
            "only validated, badly": _changed(
                TOPIC, "t", (SET, "retention.ms", "x"), validate_only=True
            ),
            "an unknown type": _changed(77, "t", (SET, "retention.ms", "5")),
        }.items():
            world.ask(step, "incremental_alter_configs", version, **fields)
        world.advance(200)
        look(f"after {version}")
    for version in versions("alter_configs"):
        for step, fields in {
            "set all": _changed(TOPIC, "u", (SET, "max.message.bytes", "5000")),
            "set a bad one": _changed(TOPIC, "u", (SET, "max.message.bytes", "-5")),
            "set an unknown": _changed(TOPIC, "u", (SET, "no.such", "5")),
            "set null": _changed(TOPIC, "u", (SET, "retention.ms", None)),
            "an unknown topic": _changed(TOPIC, "v", (SET, "retention.ms", "5")),
            "twice": _changed(TOPIC, "u", (SET, "retention.ms", "5"), (SET, "retention.ms", "6")),
            "nothing": _changed(TOPIC, "u"),
        }.items():
            world.ask(f"old way: {step}", "alter_configs", version, **fields)
        world.advance(200)
        look(f"after {version}, old way")


@scenario()
def alter_broker_configs(world: World) -> None:
    keys = ["log.retention.ms", "message.max.bytes", "num.io.threads", "num.partitions"]
    for step, fields in {
        "set at a broker": _changed(BROKER, "1", (SET, "message.max.bytes", "50000")),
        "set for the cluster": _changed(BROKER, "", (SET, "log.retention.ms", "60000")),
        "set what cannot be": _changed(BROKER, "1", (SET, "num.partitions", "5")),
        "set for the cluster what cannot be": _changed(BROKER, "", (SET, "num.partitions", "5")),
        "set a bad number": _changed(BROKER, "1", (SET, "message.max.bytes", "x")),
        "set an unknown": _changed(BROKER, "1", (SET, "no.such", "5")),
        "another broker": _changed(BROKER, "2", (SET, "message.max.bytes", "50000")),
        "a broker of no number": _changed(BROKER, "one", (SET, "message.max.bytes", "50000")),
        "only validated": _changed(
            BROKER, "1", (SET, "message.max.bytes", "7"), validate_only=True
        ),
        "null": _changed(BROKER, "1", (SET, "message.max.bytes", None)),
        "a topic's name for it": _changed(BROKER, "1", (SET, "retention.ms", "5")),
        "threads": _changed(BROKER, "1", (SET, "num.io.threads", "7")),
    }.items():
        world.ask(step, "incremental_alter_configs", 1, **fields)
    world.advance(300)
    for name in ("1", ""):
        fields = _described(BROKER, name, keys, include_synonyms=True)
        world.ask(f"seen at {name!r}", "describe_configs", 4, **fields)
    world.topic("t")
    fields = _described(TOPIC, "t", ["retention.ms", "max.message.bytes"], include_synonyms=True)
    world.ask("seen at a topic", "describe_configs", 4, **fields)
    world.ask(
        "taken back",
        "incremental_alter_configs",
        1,
        **_changed(BROKER, "", (DELETE, "log.retention.ms", None)),
    )
    world.advance(300)
    fields = _described(BROKER, "1", keys, include_synonyms=True)
    world.ask("seen after that", "describe_configs", 4, **fields)
