"""Topics and partitions: created, grown and deleted."""

from __future__ import annotations

from typing import Any

from tests.kafka.conformance.scenarios.requests import LONG_MS, create
from tests.kafka.conformance.scenarios.scenario import scenario, versions
from tests.kafka.conformance.world import World

_NOBODY = "00000000-0000-4000-8000-000000000000"


@scenario()
def create_topics(world: World) -> None:
    for version in versions("create_topics"):
        name = f"t{version}"
        world.ask("only validated", "create_topics", version, **create(name, validate_only=True))
        world.ask("created", "create_topics", version, **create(name, partitions=2))
        world.ask("created again", "create_topics", version, **create(name))
        only = create(name, validate_only=True)
        world.ask("validated though it exists", "create_topics", version, **only)
        settings: dict[str, str | None] = {"retention.ms": "5000", "cleanup.policy": "compact"}
        set_ = create(f"set{version}", config=settings)
        world.ask("with settings", "create_topics", version, **set_)
        manual = create(
            f"manual{version}", partitions=-1, replication_factor=-1, assignments={0: [1], 1: [1]}
        )
        world.ask("with an assignment", "create_topics", version, **manual)
        late = create(f"late{version}", timeout_ms=0)
        world.ask("without time", "create_topics", version, **late)
        negative = create(f"negative{version}", timeout_ms=-1)
        world.ask("with a negative time", "create_topics", version, **negative)
        only = create(f"only{version}", timeout_ms=0, validate_only=True)
        world.ask("only validated, without time", "create_topics", version, **only)
    for version in versions("create_topics", 4):
        defaults = create(f"defaults{version}", partitions=-1, replication_factor=-1)
        world.ask("with defaults", "create_topics", version, **defaults)
    world.ask("nothing", "create_topics", 7, topics=[], timeout=LONG_MS)
    names = [{"name": "late7"}, {"name": "negative7"}]
    world.ask("was it created", "metadata", 9, topics=names)


@scenario()
def bad_topics(world: World) -> None:
    world.topic("known")
    world.topic("a.b")
    auto: dict[str, Any] = {"partitions": -1, "replication_factor": -1}
    for step, fields in {
        "twice": create("x", "x"),
        "one good, one known": create("good", "known"),
        "no name": create(""),
        "a dot": create("."),
        "a space": create("a b"),
        "too long": create("x" * 250),
        "as long as allowed": create("x" * 249),
        "a name that collides": create("a_b"),
        "no partitions": create("x", partitions=0),
        "minus two partitions": create("x", partitions=-2),
        "no replicas": create("x", replication_factor=0),
        "minus two replicas": create("x", replication_factor=-2),
        "too many replicas": create("x", replication_factor=2),
        "an unknown setting": create("x", config={"no.such.setting": "1"}),
        "a null setting": create("x", config={"retention.ms": None}),
        "a bad number": create("x", config={"retention.ms": "soon"}),
        "a number too low": create("x", config={"retention.ms": "-2"}),
        "a number too high": create("x", config={"min.insync.replicas": "99999999999"}),
        "a bad boolean": create("x", config={"preallocate": "yes"}),
        "a bad choice": create("x", config={"compression.type": "lzma"}),
        "a bad list": create("x", config={"cleanup.policy": "delete,never"}),
        "a double too high": create("x", config={"min.cleanable.dirty.ratio": "1.5"}),
        "segment bytes too low": create("x", config={"segment.bytes": "13"}),
        "a broker's setting": create("x", config={"log.retention.ms": "5"}),
        "min lag above max lag": create(
            "x", config={"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"}
        ),
        "assignment and counts": create("x", assignments={0: [1]}),
        "assignment to a stranger": create("x", **auto, assignments={0: [9]}),
        "assignment twice to one": create("x", **auto, assignments={0: [1, 1]}),
        "assignment to nobody": create("x", **auto, assignments={0: []}),
        "assignment with a hole": create("x", **auto, assignments={0: [1], 2: [1]}),
        "assignment from one": create("x", **auto, assignments={1: [1]}),
        "assignment of a negative broker": create("x", **auto, assignments={0: [-1]}),
    }.items():
        world.ask(step, "create_topics", 7, **fields)


@scenario()
def create_partitions(world: World) -> None:
    world.topic("t")

    def grown(count: int, assignments: list[list[int]] | None = None, **more: Any) -> Any:
        rows = None if assignments is None else [{"broker_ids": row} for row in assignments]
        topic = {"name": more.pop("name", "t"), "count": count, "assignments": rows}
        return {"topics": [topic], "timeout": LONG_MS, "validate_only": False, **more}

    for version in versions("create_partitions"):
        count = version + 2
        only = grown(count, validate_only=True)
        world.ask("only validated", "create_partitions", version, **only)
        world.ask("one more", "create_partitions", version, **grown(count))
        world.ask("as many", "create_partitions", version, **grown(count))
        world.ask("fewer", "create_partitions", version, **grown(1))
        world.ask("none", "create_partitions", version, **grown(0))
        world.ask("a negative number", "create_partitions", version, **grown(-1))
        world.ask("of an unknown topic", "create_partitions", version, **grown(9, name="u"))
        world.ask("too few assignments", "create_partitions", version, **grown(9, [[1]]))
        stranger = grown(count + 1, [[9]])
        world.ask("assigned to a stranger", "create_partitions", version, **stranger)
        world.ask("assigned to two", "create_partitions", version, **grown(count + 1, [[1, 2]]))
        world.ask("without time", "create_partitions", version, **grown(count + 1, timeout=0))
    twice = grown(20)
    twice["topics"] *= 2
    world.ask("twice", "create_partitions", 3, **twice)
    world.ask("assigned", "create_partitions", 3, **grown(6, [[1]]))


@scenario()
def delete_topics(world: World) -> None:
    def named(*names: str, **more: Any) -> Any:
        return {
            "topic_names": list(names),
            "topics": [{"name": name} for name in names],
            "timeout": LONG_MS,
            **more,
        }

    for version in versions("delete_topics"):
        name = f"t{version}"
        world.topic(name)
        world.ask("without time", "delete_topics", version, **named(name, timeout=0))
        world.ask("deleted", "delete_topics", version, **named(name))
        world.ask("deleted again", "delete_topics", version, **named(name))
        world.ask("unknown", "delete_topics", version, **named("u"))
        world.ask("twice", "delete_topics", version, **named("u", "u"))
        world.ask("a bad name", "delete_topics", version, **named("a b"))
        world.ask("nothing", "delete_topics", version, **named())
    topic_id = world.topic("by-id")
    by_id = {"topics": [{"name": None, "topic_id": topic_id}], "timeout": LONG_MS}
    both = {"topics": [{"name": "by-id", "topic_id": topic_id}], "timeout": LONG_MS}
    nobody = {"topics": [{"name": None, "topic_id": _NOBODY}], "timeout": LONG_MS}
    neither = {"topics": [{"name": None, "topic_id": None}], "timeout": LONG_MS}
    world.ask("by an unknown id", "delete_topics", 6, **nobody)
    world.ask("by name and id", "delete_topics", 6, **both)
    world.ask("by neither", "delete_topics", 6, **neither)
    world.ask("by id", "delete_topics", 6, **by_id)


@scenario(config={"delete.topic.enable": "false"})
def deletion_disabled(world: World) -> None:
    world.topic("t")
    for version in versions("delete_topics"):
        named = {"topic_names": ["t"], "topics": [{"name": "t"}], "timeout": LONG_MS}
        world.ask("refused", "delete_topics", version, **named)


@scenario()
def elections(world: World) -> None:
    world.topic("t", partitions=2)
    for version in versions("elect_leaders"):
        for kind in (0, 1) if version else (0,):
            fields = {"election_type": kind, "timeout": LONG_MS}
            some = [{"topic": "t", "partitions": [0, 5]}, {"topic": "u", "partitions": [0]}]
            world.ask(f"type {kind}", "elect_leaders", version, topic_partitions=some, **fields)
            world.ask(
                f"all of type {kind}", "elect_leaders", version, topic_partitions=None, **fields
            )


@scenario()
def reassignments(world: World) -> None:
    world.topic("t", partitions=2)

    def moved(name: str, index: int, replicas: list[int] | None) -> Any:
        partitions = [{"partition_index": index, "replicas": replicas}]
        return {"topics": [{"name": name, "partitions": partitions}], "timeout": LONG_MS}

    for step, fields in {
        "to where it is": moved("t", 0, [1]),
        "to a stranger": moved("t", 0, [9]),
        "to nobody": moved("t", 0, []),
        "twice to one": moved("t", 0, [1, 1]),
        "cancelled": moved("t", 0, None),
        "an unknown partition": moved("t", 5, [1]),
        "an unknown topic": moved("u", 0, [1]),
        "a negative broker": moved("t", 0, [-1]),
    }.items():
        world.ask(step, "alter_partition_reassignments", 0, **fields)
    world.ask("nothing", "alter_partition_reassignments", 0, topics=[], timeout=LONG_MS)
    wanted = [{"name": "t", "partition_indexes": [0, 7]}, {"name": "u", "partition_indexes": [0]}]
    world.ask("going on", "list_partition_reassignments", 0, topics=wanted, timeout=LONG_MS)
    world.ask("all that go on", "list_partition_reassignments", 0, topics=None, timeout=LONG_MS)


@scenario()
def log_dirs(world: World) -> None:
    from tests.kafka.conformance.batches import batch
    from tests.kafka.conformance.scenarios.requests import produced

    world.topic("t", partitions=2)
    produced(world, "t", batch(b"value"))
    for version in versions("describe_log_dirs"):
        world.ask("all", "describe_log_dirs", version, topics=None)
        wanted = [{"topic": "t", "partitions": [0, 7]}, {"topic": "u", "partitions": [0]}]
        world.ask("some", "describe_log_dirs", version, topics=wanted)
        world.ask("none", "describe_log_dirs", version, topics=[])
    for version in versions("alter_replica_log_dirs"):
        elsewhere = [{"path": "/elsewhere", "topics": [{"name": "t", "partitions": [0]}]}]
        world.ask("to nowhere", "alter_replica_log_dirs", version, dirs=elsewhere)
