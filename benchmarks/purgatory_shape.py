"""The purgatory under the load of Kafka's own purgatory test.

Three keys an operation, a log-normal time to completion, a timeout of 30 s, submissions at a
given rate. One schedule of submissions and completions is made ahead and played by one thread:
as fast as it goes, which gives operations a second at the population that is live at that rate,
or in real time, which gives processor time per operation.

- force: whoever finishes the work completes the operation directly, as Kafka's test does.
- signal: whoever finishes the work marks it ready and tells the purgatory about one of its keys;
  the purgatory finds and tries the operation.

- shared: the same, but the keys are drawn from a hundred, as in Kafka's own test, so that many
  operations watch each. A signal then looks at all of them, except with progress conditions.

The same signals also with progress conditions. An operation requires an offset on any one of its
three keys: the place of its completion in the schedule. Offsets thus grow in the order in which
operations complete, and a signal of that offset on its first key completes it and nobody else,
exactly when Kafka's `checkAndComplete` on that key does:

    schedule   submit A   submit B   complete B   submit C   complete A
    place      0          1          2            3          4
    requires   A: 4 on any of its keys   B: 2   C: 5, beyond the end
    signals                          (B's key, 2)            (A's key, 4)

Timed: building the operation, submitting it, ending it, and whatever the purgatory's own
threads do meanwhile. Not timed: building the keys, or keys with offsets. Nothing expires during
a run.
"""

from __future__ import annotations

import gc
from statistics import median
from time import perf_counter_ns, process_time_ns, sleep
from typing import TYPE_CHECKING, Any

from benchmarks import inputs
from benchmarks.case import Skipped
from sojourn import DelayedOperation, Purgatory

if TYPE_CHECKING:
    from array import array
    from collections.abc import Iterable, Iterator, Sequence

    from benchmarks.case import Row

    Keys = tuple[str, ...]
    Requires = tuple[tuple[str, int], ...]


class Ended:
    """How the operations of a run ended."""

    def __init__(self) -> None:
        self.completed = 0
        self.expired = 0


class Operation(DelayedOperation):
    """Completes once somebody has marked it ready, or is forced to: a user's class, with slots."""

    __slots__ = ("ended", "ready")

    def __init__(self, ended: Ended) -> None:
        super().__init__(inputs.TIMEOUT_MS)
        self.ended = ended
        self.ready = False

    def try_complete(self) -> bool:
        return self.ready and self.force_complete()

    def on_complete(self) -> None:
        self.ended.completed += 1

    def on_expiration(self) -> None:
        self.ended.expired += 1


def measure(name: str, params: dict[str, Any]) -> Row:
    events = inputs.read(params["events"])
    at_us = inputs.read(params["at_us"])
    keys = keys_of_operations(params["key_space"], inputs.read(params["keys"]))
    paced, signal = params["paced"], params["variant"] != "force"
    progress = name == "progress"
    purgatory = Purgatory("bench")
    if progress and not hasattr(purgatory, "signal"):
        raise Skipped("this sojourn has no progress conditions")
    spent_ns = []
    cpu_ns = 0
    for turn in range(1 + params["rounds"]):  # the first to warm up; the JVM gets several
        source = in_real_time(events, at_us) if paced and turn else events
        requires = requirements(events, keys, turn) if progress else []
        gc.collect()  # what was made for this turn is not its garbage
        cpu_started = process_time_ns()
        if progress:
            turn_ns = play_progress(purgatory, source, requires)
        else:
            turn_ns = play(purgatory, source, keys, signal)
        if turn:
            spent_ns.append(turn_ns)
            cpu_ns += process_time_ns() - cpu_started
    purgatory.close()
    row: Row = {"cpu_us_per_op": cpu_ns / 1e3 / params["rounds"] / len(keys)}
    if paced:
        row["behind_ms"] = median(spent_ns) / 1e6 - at_us[-1] / 1e3
    else:
        row["ops_per_s"] = len(keys) * 1e9 / median(spent_ns)
    return row


def play(purgatory: Purgatory, events: Iterable[int], keys: Sequence[Keys], signal: bool) -> int:
    """Play the schedule; nanoseconds it took. What still waits at the end is then completed."""
    ended = Ended()
    watch, check = purgatory.try_complete_else_watch, purgatory.check_and_complete
    operations: list[Operation | None] = [None] * len(keys)
    completions = 0

    started = perf_counter_ns()
    for event in events:
        number = event >> 1
        if not event & 1:
            operations[number] = operation = Operation(ended)
            watch(operation, keys[number])
            continue
        completions += 1
        finished = operations[number]
        operations[number] = None
        assert finished is not None
        if signal:
            finished.ready = True
            check(keys[number][0])
        else:
            finished.force_complete()
    spent_ns = perf_counter_ns() - started

    if (ended.completed, ended.expired) != (completions, 0):
        raise AssertionError(f"{ended.completed} completed, not {completions}")
    for left_over in operations:
        if left_over is not None:
            left_over.force_complete()
    return spent_ns


def play_progress(purgatory: Purgatory, events: Iterable[int], requires: list[Requires]) -> int:
    """Do the same with progress conditions."""
    ended = Ended()
    submit, signal = purgatory.try_complete_else_watch, purgatory.signal
    waits = [False] * len(requires)
    completions = 0

    started = perf_counter_ns()
    for event in events:
        number = event >> 1
        if not event & 1:
            waits[number] = True
            submit(Operation(ended), requires=requires[number], needed=1)
            continue
        completions += 1
        waits[number] = False
        key, offset = requires[number][0]
        signal(key, offset)
    spent_ns = perf_counter_ns() - started

    if (ended.completed, ended.expired) != (completions, 0):
        raise AssertionError(f"{ended.completed} completed, not {completions}")
    for number, still in enumerate(waits):
        if still:
            signal(*requires[number][0])
    return spent_ns


def requirements(events: array[int], keys: Sequence[Keys], turn: int) -> list[Requires]:
    """For each operation the place of its completion, on each of its keys.

    Every turn has places of its own, beyond those of the turn before: progress stays.
    """
    before = turn * (len(events) + 1)
    offsets = [before + len(events)] * len(keys)
    for place, event in enumerate(events):
        if event & 1:
            offsets[event >> 1] = before + place
    return [tuple((key, offset) for key in own) for own, offset in zip(keys, offsets, strict=True)]


def in_real_time(events: Sequence[int], at_us: Sequence[int]) -> Iterator[int]:
    """Hand out each event at the next whole millisecond, as Kafka's own test sleeps."""
    started_ns = perf_counter_ns()
    for event, due_us in zip(events, at_us, strict=True):
        left_ns = started_ns + (due_us // 1_000 + 1) * 1_000_000 - perf_counter_ns()
        if left_ns > 0:
            sleep(left_ns / 1e9)
        yield event


def keys_of_operations(key_space: int, drawn: array[int]) -> list[Keys]:
    pool = [f"key-{i}" for i in range(key_space)]
    step = inputs.KEYS_PER_OPERATION
    return [tuple(pool[k] for k in drawn[i : i + step]) for i in range(0, len(drawn), step)]


class PendingOperations:
    """Operations that only wait, three keys each of a hundred; for the memory benchmark."""

    def __init__(self) -> None:
        self.purgatory = Purgatory("bench")
        self.ended = Ended()

    def prepare(self, delays_ms: array[int]) -> list[Keys]:
        space = inputs.FORCE_KEY_SPACE
        pool = [f"key-{i}" for i in range(space)]
        neighbours = [tuple(pool[i : i + inputs.KEYS_PER_OPERATION]) for i in range(space - 2)]
        return [neighbours[i % len(neighbours)] for i in range(len(delays_ms))]

    def add(self, keys: list[Keys]) -> list[Operation]:
        operations = []
        for own in keys:
            operation = Operation(self.ended)
            self.purgatory.try_complete_else_watch(operation, own)
            operations.append(operation)
        return operations

    def close(self) -> None:
        self.purgatory.close()


class RequiringOperations(PendingOperations):
    """The same with an offset of its own on each of the three keys."""

    def add(self, keys: list[Keys]) -> list[Operation]:
        if not hasattr(self.purgatory, "signal"):
            raise Skipped("this sojourn has no progress conditions")
        operations = []
        for number, own in enumerate(keys, start=1):
            operation = Operation(self.ended)
            requires = tuple((key, number) for key in own)
            self.purgatory.try_complete_else_watch(operation, requires=requires)
            operations.append(operation)
        return operations


PENDING = {"purgatory": PendingOperations, "progress": RequiringOperations}
