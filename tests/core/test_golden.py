"""Traces recorded from Kafka's own timer: whatever it fired at a step, ours fires at that step."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from sojourn import DeadlineWheel, ManualClock, Timer, TimerTask, TimingWheel

GOLDEN = Path(__file__).parent / "golden" / "timer-traces.jsonl.gz"
with gzip.open(GOLDEN, "rt") as lines:
    TRACES: list[dict[str, Any]] = [json.loads(line) for line in lines]


def fired(step: dict[str, Any]) -> set[int]:
    return {name for name, _ in step["fired"]}


def test_there_are_three_hundred_traces_and_they_do_everything() -> None:
    assert len(TRACES) == 300
    steps = [step for trace in TRACES for step in trace["steps"]]
    assert {step["do"][0] for step in steps} == {"add", "cancel", "readd", "advance"}
    assert sum(len(step["fired"]) for step in steps) > 10_000


def test_the_wheel_fires_what_kafka_fired_at_every_step() -> None:
    for number, trace in enumerate(TRACES):
        clock_ms = trace["start_ms"]
        wheel = TimingWheel(trace["tick_ms"], trace["wheel_size"], clock_ms)
        tasks: dict[int, TimerTask] = {}
        names: dict[int, int] = {}
        for at, step in enumerate(trace["steps"]):
            due: list[int] = []
            match step["do"]:
                case ["advance", by_ms]:
                    clock_ms += by_ms
                    due = [names[id(task)] for task in wheel.advance(clock_ms)]
                case ["cancel", name]:
                    tasks[name].cancel()
                case [_, name, *delay_ms]:
                    if delay_ms:
                        tasks[name] = TimerTask(delay_ms[0])
                        names[id(tasks[name])] = name
                    if not wheel.add(tasks[name], clock_ms + tasks[name].delay_ms):
                        due = [name]
            where = f"trace {number}, step {at}: {step['do']}"
            assert len(due) == len(set(due)), where
            assert set(due) == fired(step), where
            assert len(wheel) == step["size"], where


def test_the_deadline_wheel_fires_what_kafka_fired_by_the_next_advance() -> None:
    """What Kafka fires inside an add, the deadline wheel hands out at its next advance."""
    for number, trace in enumerate(TRACES):
        clock_ms = trace["start_ms"]
        wheel = DeadlineWheel(trace["tick_ms"], trace["wheel_size"], clock_ms)
        delays: dict[int, int] = {}
        handles: dict[int, int] = {}
        names: dict[int, int] = {}
        owed: set[int] = set()  # fired by Kafka inside an add, and not yet handed out by ours
        for at, step in enumerate(trace["steps"]):
            where = f"trace {number}, step {at}: {step['do']}"
            match step["do"]:
                case ["advance", by_ms]:
                    clock_ms += by_ms
                    due = [names.pop(handle) for handle in wheel.advance(clock_ms)]
                    assert len(due) == len(set(due)), where
                    assert set(due) == fired(step) | owed, where
                    owed.clear()
                case ["cancel", name]:
                    wheel.cancel_many([handles[name]])
                    owed.discard(name)
                case [_, name, *delay_ms]:
                    if delay_ms:
                        delays[name] = delay_ms[0]
                    else:
                        wheel.cancel_many([handles[name]])
                        owed.discard(name)
                    handles[name] = wheel.add_many([clock_ms + delays[name]])[0]
                    names[handles[name]] = name
                    owed |= fired(step)
            assert len(wheel) == step["size"] + len(owed), where


class Ran(TimerTask):
    """Notes that it ran, and may be added again."""

    def __init__(self, name: int, delay_ms: int, ran: list[int]) -> None:
        super().__init__(delay_ms)
        self.name = name
        self.ran = ran

    def run(self) -> None:
        self.ran.append(self.name)


def test_the_timer_runs_what_kafka_fired_at_every_step() -> None:
    """At tick 1 only, since ours rounds a deadline up to a whole tick. And ours runs what has no
    delay at once, where Kafka may leave it until its wheel's own time catches up.
    """
    fine = [(n, trace) for n, trace in enumerate(TRACES) if trace["tick_ms"] == 1]
    assert len(fine) > 100
    for number, trace in fine:
        clock = ManualClock(trace["start_ms"])
        timer = Timer(clock, wheel_size=trace["wheel_size"])
        ran: list[int] = []
        tasks: dict[int, Ran] = {}
        ahead: set[int] = set()  # without delay: run by ours, and still waiting in Kafka
        for at, step in enumerate(trace["steps"]):
            where = f"trace {number}, step {at}: {step['do']}"
            ran.clear()
            match step["do"]:
                case ["advance", by_ms]:
                    clock.advance(by_ms)
                    assert set(ran) == fired(step) - ahead, where
                    ahead -= fired(step)
                case ["cancel", name]:
                    tasks[name].cancel()
                    ahead.discard(name)
                    assert ran == [], where
                case [_, name, *delay_ms]:
                    if delay_ms:
                        tasks[name] = Ran(name, delay_ms[0], ran)
                    timer.add(tasks[name])
                    ahead.discard(name)
                    if tasks[name].delay_ms <= 0:
                        assert ran == [name], where
                        ahead |= {name} - fired(step)
                    else:
                        assert ran == [], where
                        assert fired(step) == set(), where
            assert len(ran) == len(set(ran)), where
            assert len(timer) == step["size"] - len(ahead), where
