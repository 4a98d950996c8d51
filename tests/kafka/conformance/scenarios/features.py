"""Features of the cluster, and the quorum of its controllers."""

from __future__ import annotations

from typing import Any

from tests.kafka.conformance.scenarios.scenario import scenario
from tests.kafka.conformance.world import World

_UPGRADE, _SAFE_DOWNGRADE, _UNSAFE_DOWNGRADE = 1, 2, 3


def _update(world: World, step: str, *updates: dict[str, Any], version: int = 1, **f: Any) -> None:
    world.ask(step, "update_features", version, feature_updates=updates, timeout=10_000, **f)


def _to(level: int, feature: str = "metadata.version", **fields: Any) -> dict[str, Any]:
    return {"feature": feature, "max_version_level": level} | fields


@scenario()
def features(world: World) -> None:
    finalized = world.exchange(1, "asks").ask(
        "api_versions", 4, client_software_name="test", client_software_version="1"
    )
    (level,) = (
        one["max_version_level"]
        for one in finalized["finalized_features"]
        if one["name"] == "metadata.version"
    )
    _update(world, "nothing")
    for version in (0, 1):
        _update(world, "an unknown one", _to(1, "unknown"), version=version)
        _update(world, "above what is supported", _to(level + 50), version=version)
        _update(world, "the level that it has", _to(level), version=version)
        _update(world, "a lower level", _to(level - 1), version=version)
        _update(world, "below what is supported", _to(-1), version=version)
        _update(world, "level 0", _to(0), version=version)
        _update(world, "an unknown one to 0", _to(0, "unknown"), version=version)
        _update(world, "one of two unknown", _to(1, "unknown"), _to(level), version=version)
        _update(world, "the same twice", _to(level), _to(level), version=version)
        _update(world, "the empty name", _to(1, ""), version=version)
        _update(world, "the quorum's version", _to(1, "kraft.version"), version=version)
    _update(world, "a downgrade of long ago", _to(level - 1, allow_downgrade=True), version=0)
    for kind in (_SAFE_DOWNGRADE, _UNSAFE_DOWNGRADE, 0, 9):
        _update(world, f"validated, kind {kind}", _to(level, upgrade_type=kind), validate_only=True)
        _update(world, f"unknown, kind {kind}", _to(0, "unknown", upgrade_type=kind))
    _update(world, "the same level, validated", _to(level), validate_only=True)
    _update(world, "an unknown one, validated", _to(1, "unknown"), validate_only=True)
    _update(
        world,
        "far below, unsafely, validated",
        _to(1, upgrade_type=_UNSAFE_DOWNGRADE),
        validate_only=True,
    )


def _quorum(*partitions: int, topic: str = "__cluster_metadata") -> dict[str, Any]:
    rows = [{"partition_index": one} for one in partitions]
    return {"topics": [{"topic_name": topic, "partitions": rows}]}


@scenario()
def quorum_of_controllers(world: World) -> None:
    for version in (0, 1, 2):
        _describe(world, version)
        world.ask("another partition", "describe_quorum", version, **_quorum(1))
        world.ask("two partitions", "describe_quorum", version, **_quorum(0, 1))
        world.ask("another topic", "describe_quorum", version, **_quorum(0, topic="t"))
        world.ask("no topic", "describe_quorum", version, topics=[])


def _describe(world: World, version: int) -> None:
    """Where the log of metadata ends differs from run to run."""
    answer = world.exchange(1, "asks").ask("describe_quorum", version, **_quorum(0))
    (partition,) = answer["topics"][0]["partitions"]
    partition["high_watermark"] = "offset"
    for replica in partition["current_voters"]:
        replica["log_end_offset"] = "offset"
    world.note(f"described, v{version}", answer)
