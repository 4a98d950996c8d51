"""What there is, and where."""

from __future__ import annotations

from tests.kafka.conformance.scenarios.scenario import scenario, versions
from tests.kafka.conformance.world import World

_NOBODY = "00000000-0000-4000-8000-000000000000"


@scenario(config={"auto.create.topics.enable": "false"})
def metadata(world: World) -> None:
    topic_id = world.topic("t", partitions=2)
    for version in versions("metadata"):
        world.ask("all topics", "metadata", version, topics=[] if version == 0 else None)
        if version:
            world.ask("no topics", "metadata", version, topics=[])
        names = [{"name": "t"}, {"name": "u"}]
        world.ask("by name", "metadata", version, topics=names, allow_auto_topic_creation=False)
    for version in versions("metadata", 4):
        for name in ("a b", ".", "..", "x" * 250, "é", "", "under_score"):
            world.ask(
                f"the name {name[:20]!r}",
                "metadata",
                version,
                topics=[{"name": name}],
                allow_auto_topic_creation=False,
            )
    for version in versions("metadata", 8):
        world.ask(
            "with operations",
            "metadata",
            version,
            topics=[{"name": "t"}],
            include_topic_authorized_operations=True,
            include_cluster_authorized_operations=True,
        )
    for version in versions("metadata", 10):
        by_id = [{"topic_id": topic_id, "name": "t" if version < 12 else None}]
        world.ask("by id", "metadata", version, topics=by_id)
        nobody = [{"topic_id": _NOBODY, "name": "u" if version < 12 else None}]
        world.ask("by an id that there is not", "metadata", version, topics=nobody)
    twice = [{"name": "t"}, {"name": "t"}]
    world.ask("a topic twice", "metadata", 12, topics=twice)


@scenario(config={"num.partitions": "3"})
def auto_creation(world: World) -> None:
    for version in versions("metadata"):
        asked = [{"name": f"new-{version}"}]
        world.ask("first", "metadata", version, topics=asked, allow_auto_topic_creation=True)
        world.eventually(
            "then",
            lambda answer: answer["topics"][0]["error_code"] == 0,
            "metadata",
            version,
            topics=asked,
            allow_auto_topic_creation=True,
        )
    world.topic("a.b")
    collides = [{"name": "a_b"}]
    world.ask(
        "a name that collides", "metadata", 9, topics=collides, allow_auto_topic_creation=True
    )
    world.advance(300)
    world.ask("asked again", "metadata", 9, topics=collides, allow_auto_topic_creation=False)


@scenario(config={"auto.create.topics.enable": "false"})
def no_auto_creation(world: World) -> None:
    for version in versions("metadata"):
        asked = [{"name": "t"}]
        world.ask("unknown", "metadata", version, topics=asked, allow_auto_topic_creation=True)


@scenario()
def cluster(world: World) -> None:
    for version in versions("describe_cluster"):
        world.ask("described", "describe_cluster", version)
        world.ask(
            "with operations",
            "describe_cluster",
            version,
            include_cluster_authorized_operations=True,
        )
    world.ask("controllers", "describe_cluster", 1, endpoint_type=2)
    world.ask("another endpoint", "describe_cluster", 1, endpoint_type=7)


@scenario()
def topic_partitions(world: World) -> None:
    world.topic("a", partitions=3)
    world.topic("b", partitions=2)
    names = [{"name": name} for name in ("b", "a", "c", "a b")]
    limits = {"response_partition_limit": 2000}
    world.ask("by name", "describe_topic_partitions", 0, topics=names, **limits)
    world.ask("all", "describe_topic_partitions", 0, topics=[], **limits)
    world.ask("a few", "describe_topic_partitions", 0, topics=[], response_partition_limit=2)
    for name, index in (("a", 2), ("b", 0), ("b", 1), ("b", 2), ("aa", 0), ("z", 0), ("a", 9)):
        world.ask(
            f"from {name}/{index} on",
            "describe_topic_partitions",
            0,
            topics=[],
            response_partition_limit=2,
            cursor={"topic_name": name, "partition_index": index},
        )
    world.ask("none", "describe_topic_partitions", 0, topics=names, response_partition_limit=0)
    world.ask(
        "a cursor that does not fit",
        "describe_topic_partitions",
        0,
        topics=[{"name": "b"}],
        response_partition_limit=2,
        cursor={"topic_name": "a", "partition_index": 0},
    )
    world.ask(
        "a negative cursor",
        "describe_topic_partitions",
        0,
        topics=[{"name": "b"}],
        response_partition_limit=2,
        cursor={"topic_name": "b", "partition_index": -1},
    )
