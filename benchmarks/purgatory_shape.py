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
threads do meanwhile. Not timed: building the keys, or keys with offsets, and decoding the schedule
into what is to be submitted and completed. (The JVM decodes as it goes, which it does in a few
instructions. In Python that would be a quarter of the time, and none of it the purgatory's.)
Nothing expires during a run.
"""

from __future__ import annotations

import gc
from abc import ABC, abstractmethod
from statistics import median
from time import perf_counter_ns, process_time_ns, sleep
from typing import TYPE_CHECKING, Any

from benchmarks import inputs
from benchmarks.case import Skipped
from sojourn import DelayedOperation, Purgatory

if TYPE_CHECKING:
    from array import array
    from collections.abc import Callable, Iterator, Sequence

    from benchmarks.case import Row

    Keys = tuple[str, ...]
    Requires = tuple[tuple[str, int], ...]
    #: An operation's number, and its keys if it is submitted, None if it is completed.
    Step = tuple[int, Keys | None]
    #: What is required if it is submitted, None if it is completed; and what completes it.
    ProgressStep = tuple[Requires | None, str, int]


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


class Required(DelayedOperation):
    """Waits for progress, and carries what its callbacks need: a user's class, with slots."""

    __slots__ = ("ended",)

    def __init__(self, ended: Ended) -> None:
        super().__init__(inputs.TIMEOUT_MS)
        self.ended = ended

    def on_complete(self) -> None:
        self.ended.completed += 1

    def on_expiration(self) -> None:
        self.ended.expired += 1


def plain(ended: Ended) -> type[DelayedOperation]:
    """A class whose callbacks know what they need: it has no constructor of its own."""

    class Plain(DelayedOperation):
        __slots__ = ()

        def on_complete(self) -> None:
            ended.completed += 1

        def on_expiration(self) -> None:
            ended.expired += 1

    return Plain


def measure(name: str, params: dict[str, Any]) -> Row:
    events = inputs.read(params["events"])
    at_us = inputs.read(params["at_us"])
    keys = keys_of_operations(params["key_space"], inputs.read(params["keys"]))
    paced, signal = params["paced"], params["variant"] != "force"
    purgatory = Purgatory("bench")
    if name != "purgatory" and not hasattr(purgatory, "signal"):
        raise Skipped("this sojourn has no progress conditions")
    spent_ns = []
    cpu_ns = 0
    for turn in range(1 + params["rounds"]):  # the first to warm up; the JVM gets several
        round_: Round
        if name == "purgatory":
            round_ = Watching(purgatory, events, at_us if paced and turn else None, keys, signal)
        else:
            required = requirements(events, keys, turn)
            round_ = Requiring(purgatory, events, required, name == "progress-plain")
        gc.collect()  # what was made for this turn is not its garbage
        cpu_started = process_time_ns()
        turn_ns = round_.play()
        turn_cpu_ns = process_time_ns() - cpu_started
        round_.finish()
        if turn:
            spent_ns.append(turn_ns)
            cpu_ns += turn_cpu_ns
    purgatory.close()
    row: Row = {"cpu_us_per_op": cpu_ns / 1e3 / params["rounds"] / len(keys)}
    if paced:
        row["behind_ms"] = median(spent_ns) / 1e6 - at_us[-1] / 1e3
    else:
        row["ops_per_s"] = len(keys) * 1e9 / median(spent_ns)
    return row


class Round(ABC):
    """The schedule, decoded; it can be played once."""

    def __init__(self, purgatory: Purgatory, events: Sequence[int]) -> None:
        self.purgatory = purgatory
        self.ended = Ended()
        self.completed = {event >> 1 for event in events if event & 1}

    @abstractmethod
    def play(self) -> int:
        """Play it; nanoseconds it took."""

    @abstractmethod
    def complete_others(self) -> None:
        """Complete what still waits."""

    def finish(self) -> None:
        """Check that as many were completed as should be, then complete the others."""
        if (self.ended.completed, self.ended.expired) != (len(self.completed), 0):
            raise AssertionError(f"{self.ended.completed} completed, not {len(self.completed)}")
        self.complete_others()


class Watching(Round):
    """Operations with a condition in Python, and three watch keys."""

    def __init__(
        self,
        purgatory: Purgatory,
        events: Sequence[int],
        at_us: Sequence[int] | None,
        keys: Sequence[Keys],
        signal: bool,
    ) -> None:
        super().__init__(purgatory, events)
        self.steps: list[Step] = [
            (event >> 1, None if event & 1 else keys[event >> 1]) for event in events
        ]
        self.at_us = at_us
        self.operations: list[Operation | None] = [None] * len(keys)
        self.keys = keys
        self.signal = signal

    def play(self) -> int:
        ended, keys, signal = self.ended, self.keys, self.signal
        watch, check = self.purgatory.try_complete_else_watch, self.purgatory.check_and_complete
        operations = self.operations
        steps = self.steps if self.at_us is None else in_real_time(self.steps, self.at_us)

        started = perf_counter_ns()
        for number, watched in steps:
            if watched is not None:
                operations[number] = operation = Operation(ended)
                watch(operation, watched)
                continue
            finished = operations[number]
            operations[number] = None
            assert finished is not None
            if signal:
                finished.ready = True
                check(keys[number][0])
            else:
                finished.force_complete()
        return perf_counter_ns() - started

    def complete_others(self) -> None:
        for left_over in self.operations:
            if left_over is not None:
                left_over.force_complete()


class Requiring(Round):
    """The same with progress conditions."""

    def __init__(
        self,
        purgatory: Purgatory,
        events: Sequence[int],
        requires: Sequence[Requires],
        is_plain: bool,
    ) -> None:
        super().__init__(purgatory, events)
        self.requires = requires
        self.make: Callable[[Any], DelayedOperation] = Required
        self.argument: Any = self.ended
        if is_plain:
            self.make, self.argument = plain(self.ended), inputs.TIMEOUT_MS
        self.steps: list[ProgressStep] = []
        for event in events:
            required = requires[event >> 1]
            key, offset = required[0]
            self.steps.append((None if event & 1 else required, key, offset))

    def play(self) -> int:
        make, argument = self.make, self.argument
        submit, signal = self.purgatory.try_complete_else_watch, self.purgatory.signal

        started = perf_counter_ns()
        for required, key, offset in self.steps:
            if required is not None:
                submit(make(argument), requires=required, needed=1)
            else:
                signal(key, offset)
        return perf_counter_ns() - started

    def complete_others(self) -> None:
        for number, required in enumerate(self.requires):
            if number not in self.completed:
                self.purgatory.signal(*required[0])


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


def in_real_time(steps: Sequence[Step], at_us: Sequence[int]) -> Iterator[Step]:
    """Hand out each step at the next whole millisecond, as Kafka's own test sleeps."""
    started_ns = perf_counter_ns()
    for step, due_us in zip(steps, at_us, strict=True):
        left_ns = started_ns + (due_us // 1_000 + 1) * 1_000_000 - perf_counter_ns()
        if left_ns > 0:
            sleep(left_ns / 1e9)
        yield step


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

    def add(self, keys: list[Keys]) -> Sequence[DelayedOperation]:
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

    def add(self, keys: list[Keys]) -> Sequence[DelayedOperation]:
        if not hasattr(self.purgatory, "signal"):
            raise Skipped("this sojourn has no progress conditions")
        operations = []
        for number, own in enumerate(keys, start=1):
            operation = Required(self.ended)
            requires = tuple((key, number) for key in own)
            self.purgatory.try_complete_else_watch(operation, requires=requires)
            operations.append(operation)
        return operations


PENDING = {"purgatory": PendingOperations, "progress": RequiringOperations}
