"""Every scenario, played against a real Kafka or against ours."""

from __future__ import annotations

from collections.abc import Sequence

from tests.kafka.conformance import real
from tests.kafka.conformance.recording import Answer
from tests.kafka.conformance.scenarios import ALL, Scenario
from tests.kafka.conformance.world import CONFIG, Ours, Real, World


def our_answers(names: Sequence[str] = ()) -> list[Answer]:
    """What our cluster answers, in all scenarios or these."""
    found: list[Answer] = []
    for scenario in _chosen(names):
        world = Ours(scenario.name, scenario.brokers, scenario.config)
        found += _played(scenario, world)
    return found


def recorded_anew(version: str, names: Sequence[str] = ()) -> list[Answer]:
    """What a real Kafka of this version answers; or real.Unavailable."""
    found: list[Answer] = []
    for scenario in _chosen(names):
        if int(version.split(".")[0]) < scenario.since:
            continue
        config = CONFIG | dict(scenario.config)
        with real.running(version, scenario.brokers, config) as cluster:
            found += _played(scenario, Real(scenario.name, cluster))
    return found


def _chosen(names: Sequence[str]) -> list[Scenario]:
    return [ALL[name] for name in names or sorted(ALL)]


def _played(scenario: Scenario, world: World) -> list[Answer]:
    try:
        scenario.play(world)
        return world.answers
    finally:
        world.close()
