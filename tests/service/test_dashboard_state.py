"""The numbers of GET /v1/state are those that anybody can count from the feed of outcomes."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

pytest.importorskip("starlette", reason="the service needs its extras")

import jsonschema_rs
import msgspec

from sojourn import ManualClock
from sojourn.durable import Operation, Purgatory
from sojourn.service import advice
from sojourn.service.service import Service
from sojourn.service.state import State
from sojourn.service.state_schema import state_schema

START_MS = 1_800_000_000_000
STATUSES = ("completed", "expired", "cancelled")


class World:
    """A purgatory on a clock moved by hand, its state, and nothing of the network."""

    def __init__(self, path: Path) -> None:
        self.clock = ManualClock()
        self.purgatory = Purgatory(path, clock=self.clock, wall_ms=lambda: START_MS)
        self.state = State(self.service())

    def service(self) -> Service:
        def trouble() -> None:
            return None

        def subscribers() -> list[dict[str, Any]]:
            last = self.purgatory.last_outcome
            return [
                {"name": name, "position": position, "behind": last - position, "webhook": None}
                for name, position in self.purgatory.subscriptions().items()
            ]

        stub = SimpleNamespace(
            purgatory=self.purgatory,
            started_ms=self.purgatory.now_ms,
            settings=SimpleNamespace(max_waiting=None),
            trouble=trouble,
            subscribers=subscribers,
        )
        return cast(Service, stub)

    def ask(self) -> dict[str, Any]:
        """The state as a client gets it, once the advisor and the machine have spoken."""

        async def gather() -> Any:
            told = await self.state.gather()
            while told["inspection"] is None or any(
                row["advice"] is None for row in told["classes"]["rows"]
            ):
                await asyncio.sleep(0.01)
                told = await self.state.gather()
            return told

        told: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(asyncio.run(gather())))
        jsonschema_rs.validate(state_schema(), told)
        return told

    def outcomes(self) -> list[Operation]:
        """Everything the feed has told."""
        listed: list[Operation] = []
        while page := self.purgatory.outcomes(listed[-1].number or 0 if listed else 0, limit=500):
            listed += page
        return listed


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path / "waits.db")
    yield made
    made.state.close()
    made.purgatory.close()


def live_for(world: World, seed: int, steps: int) -> None:
    """Random traffic of a few classes, over less than five minutes; no timeout comes twice."""
    chance = random.Random(seed)
    ids: list[str] = []
    for n in range(steps):
        rows = []
        for _ in range(chance.randrange(16)):
            ids.append(f"{n}-{len(ids)}")
            keys = chance.sample(range(30), chance.randrange(1, 4))
            requires = [(f"key-{key}", n + chance.randrange(4)) for key in keys]
            timeout_ms = chance.choice((300, 20_000)) + len(ids)
            class_ = chance.choice(("order", "order", "refund", ""))
            needed = chance.randrange(1, len(requires) + 1)
            rows.append((ids[-1], requires, timeout_ms, needed, class_))
        world.purgatory.submit_many(rows)
        world.purgatory.signal_many(
            [(f"key-{chance.randrange(30)}", n + chance.randrange(4)) for _ in range(5)]
        )
        world.purgatory.cancel_many(chance.sample(ids[-10:], min(len(ids), 2)))
        world.clock.advance(chance.choice((1, 200, 900)))


def percentile(values: list[int], percent: int) -> int:
    return sorted(values)[-(-len(values) * percent // 100) - 1]


@pytest.mark.parametrize("seed", range(3))
def test_the_numbers_equal_a_recount_of_the_feed(world: World, seed: int) -> None:
    pytest.importorskip("pyarrow")
    live_for(world, seed, 120)
    told, outcomes = world.ask(), world.outcomes()
    assert len(outcomes) > 300
    assert told["waiting"] == len(world.purgatory)
    assert told["now_ms"] - START_MS < 280_000  # so that everything is in every window

    # Totals and rates.
    for status in STATUSES:
        count = sum(each.status == status for each in outcomes)
        assert count > 10
        assert told["totals"][status] == count
    waiting = world.purgatory.inspect(lambda machine: machine.oldest(10_000)).result()
    moments: dict[str, list[int | None]] = {
        "submitted": [each.submitted_ms for each in (*outcomes, *waiting)],
        "completed": [each.at_ms for each in outcomes if each.status == "completed"],
        "cancelled": [each.at_ms for each in outcomes if each.status == "cancelled"],
    }
    from_ms = told["rates"]["from_ms"]
    for name, times in moments.items():
        by_second = Counter(((at_ms or 0) - from_ms) // 1_000 for at_ms in times)
        assert told["rates"][name] == [by_second[n] for n in range(300)]
    just_now = sum(
        each.status == "expired" and (each.at_ms or 0) > told["now_ms"] - 2_000 for each in outcomes
    )
    assert 0 <= told["totals"]["expired"] - sum(told["rates"]["expired"]) <= just_now

    # Classes.
    by_class = Counter((each.class_, each.status) for each in outcomes)
    rows = told["classes"]["rows"]
    assert told["classes"]["others"] is None
    assert {row["name"] for row in rows} == {"order", "refund", ""}
    for row in rows:
        for status in STATUSES:
            assert row[status] == by_class[row["name"], status]
        assert sum(row["ended_by_step"]) == sum(row[status] for status in STATUSES)
        assert sum(row["expired_by_step"]) == row["expired"]

    # Percentiles, to an eighth.
    waits = [each.waited_ms or 0 for each in outcomes]
    assert told["waited"]["count"] == len(waits)
    assert told["waited"]["max_ms"] == max(waits)
    for percent in (50, 99):
        exact = percentile(waits, percent)
        assert exact <= told["waited"][f"p{percent}_ms"] <= exact * 9 / 8 + 1
    assert told["lateness"]["count"] == told["totals"]["expired"]
    assert told["lateness"]["max_ms"] <= 1_000

    # What the machine says.
    inspected = told["inspection"]
    assert [each["id"] for each in inspected["oldest"]] == [each.id for each in waiting[:10]]
    assert sum(sum(level["counts"]) for level in inspected["wheel"]) == len(waiting)
    on_keys: Counter[str] = Counter()
    for each in waiting:
        for key, offset in each.requires:
            on_keys[key] += (world.purgatory.progress(key) or -1) < offset
    for each in inspected["keys"]:
        assert each["waiting"] == on_keys[each["key"]]
    assert told["outcomes"] == {"first": 1, "last": len(outcomes)}
    assert told["file_bytes"] == world.purgatory.file_bytes


@pytest.mark.parametrize("seed", range(2))
def test_the_advisor_learns_when_the_expired_could_have_completed(world: World, seed: int) -> None:
    pa = pytest.importorskip("pyarrow")
    from sojourn import replay

    live_for(world, seed, 120)
    operations, signals = [], []
    for batch in world.purgatory.batches(0, 100_000):
        signals += [{"key": k, "offset": o, "at_ms": batch.time_ms} for k, o in batch.signals]
        operations += [
            {
                "id": str(each.timeout_ms),  # which no other has
                "submitted_ms": each.submitted_ms,
                "timeout_ms": each.timeout_ms,
                "requires": [{"key": key, "offset": offset} for key, offset in each.requires],
                "needed": each.needed,
            }
            for each in batch.operations
        ]
    resolved = replay.resolve(pa.Table.from_pylist(operations), pa.Table.from_pylist(signals))
    moments = {int(row["id"]): row["condition_ms"] for row in resolved.outcomes.to_pylist()}

    world.state._late.catch_up()
    samples = [world.state._recent.sample(class_) for class_ in ("order", "refund", "")]
    expired = [
        each for sample in samples if sample for each in sample.ended() if each.status == "expired"
    ]
    assert sum(each.condition_ms is not None for each in expired) > 10
    for each in expired:
        moment_ms = moments[each.timeout_ms]
        assert (each.condition_ms is None) == (moment_ms is None)
        if each.condition_ms is not None:
            assert moment_ms <= each.condition_ms <= moment_ms + world.state._late.resolution_ms


def test_without_pyarrow_the_state_says_what_to_install(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sojourn.service.state.is_installed", lambda: False)
    world.purgatory.signal("a", 1)
    world.purgatory.submit("one", [("a", 1)], 1_000)
    told = asyncio.run(world.state.gather())
    assert told["classes"]["advisor"] == advice.INSTALL
    assert told["classes"]["rows"][0]["advice"] is None


def test_the_machine_is_left_alone_while_nobody_asks_and_between_looks(world: World) -> None:
    asked = 0
    inspect = world.purgatory.inspect

    def counting(question: Callable[[Any], Any]) -> Any:
        nonlocal asked
        asked += 1
        return inspect(question)

    world.purgatory.inspect = counting  # type: ignore[method-assign]
    live_for(world, 0, 50)
    assert asked == 0
    for _ in range(5):
        asyncio.run(world.state.gather())
    assert asked == 1
    world.clock.advance(3_600_000)
    asyncio.run(world.state.gather())
    assert asked == 2


def test_a_subscriber_that_does_not_move_is_told_with_since_when(world: World) -> None:
    mail = world.purgatory.subscription("mail")
    world.purgatory.signal("a", 1)
    world.purgatory.submit("zero", [("a", 1)], 1_000)
    mail.read()
    mail.commit()
    stopped_ms = world.purgatory.now_ms
    world.purgatory.submit_many([(str(n), [("a", 1)], 1_000) for n in range(1_000)])
    world.clock.advance(70_000)
    world.purgatory.signal("a", 2)  # somebody else is alive
    told = asyncio.run(world.state.gather())
    (row,) = told["subscribers"]
    assert (row["name"], row["position"], row["behind"]) == ("mail", 1, 1_000)
    assert stopped_ms <= row["moved_ms"] <= stopped_ms + 2
    (finding,) = told["findings"]
    assert (finding["kind"], finding["subscriber"]) == ("behind", "mail")


def test_many_who_look_cost_as_much_as_one(world: World) -> None:
    gathered = 0
    gather = world.state.gather

    async def counting() -> dict[str, Any]:
        nonlocal gathered
        gathered += 1
        return await gather()

    async def look() -> list[bytes]:
        return await asyncio.gather(*(world.state.as_json() for _ in range(50)))

    world.state.gather = counting  # type: ignore[method-assign]
    told = asyncio.run(look())
    assert gathered == 1
    assert len(set(told)) == 1
    assert msgspec.json.decode(told[0])["waiting"] == 0


def test_a_slow_writer_does_not_keep_the_state_waiting(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    from concurrent.futures import Future

    monkeypatch.setattr("sojourn.service.inspections._WAIT_S", 0.01)
    never: Future[Any] = Future()
    world.purgatory.inspect = lambda question: never  # type: ignore[method-assign]
    assert asyncio.run(world.state.gather())["inspection"] is None
