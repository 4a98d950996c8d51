"""Races for progress: signals, submissions, timeouts and cancels meet; each operation ends once."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Hashable

import pytest

from sojourn import DelayedOperation, Purgatory, Timer
from sojourn.errors import AlreadyWaiting, Closed
from tests.seeds import seed

pytestmark = pytest.mark.usefixtures("close_interleaving")

WAIT_S = 60.0
BURST = 500


class Named:
    """A key whose look-up runs Python code, in which threads change; many of them collide."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __hash__(self) -> int:
        return self.number // 4

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Named) and self.number == other.number


MAKE_KEY: list[Callable[[int], Hashable]] = [int, Named]


class Racer(DelayedOperation):
    """Notes how it ends, and releases a permit when it has."""

    def __init__(self, timeout_ms: int, permits: threading.Semaphore | None = None) -> None:
        super().__init__(timeout_ms)
        self.endings: list[str] = []
        self.permits = permits or threading.Semaphore(0)
        self.late = threading.Semaphore(0)

    def try_complete(self) -> bool:
        raise AssertionError("an operation that waits for progress is never tried")

    def on_complete(self) -> None:
        self.endings.append("expired" if self.is_expired else "completed")
        self.permits.release()

    def on_expiration(self) -> None:
        self.endings.append("on_expiration")
        self.late.release()


class Race:
    """Threads that signal and cancel random keys while others submit and operations time out."""

    def __init__(self, seed: int, keys: int) -> None:
        self.timer = Timer(name="races")
        self.purgatory = Purgatory("races", self.timer)
        self.seed = seed
        self.keys = keys
        self.stop = threading.Event()
        self.completed = [0, 0, 0, 0]  # by each thread that may complete: signallers, submitters
        self.ways = [dict.fromkeys(("completed", "expired", "cancelled"), 0) for _ in range(2)]

    def run(self, races: int) -> None:
        hammers = [
            threading.Thread(target=self._hammer, args=(n, work), daemon=True)
            for n, work in enumerate((self._signal, self._signal, self._cancel))
        ]
        for thread in hammers:
            thread.start()
        in_threads(
            lambda: self._submit(races // 2, 0),
            lambda: self._submit(races // 2, 1),
        )
        self.stop.set()
        for thread in hammers:
            thread.join(WAIT_S)
            assert not thread.is_alive()

    def _submit(self, races: int, who: int) -> None:
        """In bursts: submit, wait until all have ended, and see how each has."""
        rng = random.Random(self.seed + 10 + who)
        purgatory, ways = self.purgatory, self.ways[who]
        for _ in range(0, races, BURST):
            permits = threading.Semaphore(0)
            racers = [Racer(rng.randint(0, 3), permits) for _ in range(BURST)]
            for racer in racers:
                keys = [rng.randrange(self.keys) for _ in range(rng.randint(1, 4))]
                requires = [
                    (key, (purgatory.progress(key) or 0) + rng.randint(0, 2)) for key in keys
                ]
                needed = rng.choice((None, rng.randint(1, len(keys))))
                if rng.random() < 0.2:  # no signal gets there: it expires, unless it is cancelled
                    requires[0], needed = (keys[0], 2**62), None
                if purgatory.try_complete_else_watch(racer, requires=requires, needed=needed):
                    self.completed[2 + who] += 1
                    assert racer.endings == ["completed"]
            for _ in racers:
                assert permits.acquire(timeout=WAIT_S), "an operation never ended"
            for racer in racers:
                if racer.is_expired:
                    assert racer.late.acquire(timeout=WAIT_S)  # it comes after on_complete
                    assert racer.endings == ["expired", "on_expiration"]
                    ways["expired"] += 1
                else:
                    assert racer.endings in (["completed"], ["cancelled"])
                    ways[racer.endings[0]] += 1
            assert not permits.acquire(blocking=False), "an operation ended twice"

    def _hammer(self, who: int, work: Callable[[random.Random, int], None]) -> None:
        rng = random.Random(self.seed + who)
        while not self.stop.is_set():
            work(rng, who)

    def _signal(self, rng: random.Random, who: int) -> None:
        key = rng.randrange(self.keys)
        offset = (self.purgatory.progress(key) or 0) + rng.choice((1, 1, 1, 0, -5))
        self.completed[who] += self.purgatory.signal(key, offset)

    def _cancel(self, rng: random.Random, who: int) -> None:
        key = rng.randrange(self.keys)
        if rng.random() < 0.5:
            cancelled = self.purgatory.cancel_for_key(key)
        else:
            cancelled = [o for o in self.purgatory.waiting(key) if o.cancel()]
        for operation in cancelled:
            assert isinstance(operation, Racer)
            operation.endings.append("cancelled")
            operation.permits.release()
        for _ in range(1000):  # else it would win most races
            if self.stop.is_set():
                return


def in_threads(*parts: Callable[[], object]) -> None:
    """Run the parts in as many threads, which start together; an error in one is raised here."""
    errors: list[BaseException] = []
    start = threading.Barrier(len(parts))

    def run(part: Callable[[], object]) -> None:
        try:
            start.wait(WAIT_S)
            part()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(part,), daemon=True) for part in parts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10 * WAIT_S)
        assert not thread.is_alive()
    if errors:
        raise errors[0]


def nothing_is_left(purgatory: Purgatory) -> bool:
    return (purgatory.watched, purgatory.delayed, len(purgatory.timer)) == (0, 0, 0)


def _race(races: int, seed: int) -> None:
    """Run that many races; every one ends in one way, and nothing is left."""
    race = Race(seed, keys=97)
    race.run(races)
    assert nothing_is_left(race.purgatory)
    ways = {way: race.ways[0][way] + race.ways[1][way] for way in race.ways[0]}
    metrics = race.purgatory.metrics()
    assert (metrics.completed, metrics.expired, metrics.cancelled) == tuple(ways.values())
    assert sum(ways.values()) == races
    assert sum(race.completed) == ways["completed"]
    assert metrics.waiting.count == ways["completed"] + ways["expired"]
    assert metrics.errors == 0
    assert metrics.known_keys <= race.keys
    assert min(*ways.values(), *race.completed) > races // 1000, f"not much of a race: {ways}"
    race.purgatory.close()
    race.timer.close()


def test_twenty_thousand_races_for_progress_end_once_each() -> None:
    _race(20_000, seed=seed())


@pytest.mark.nightly
def test_a_million_races_for_progress_end_once_each() -> None:
    _race(1_000_000, seed=seed())


# No wake-up is lost. Nothing here expires in time: what is not woken is left waiting.


def _wake_all(operations: int, make_key: Callable[[int], Hashable], seed: int) -> None:
    """Two threads submit, two signal the same keys up to where all hold: before, after, during."""
    keys, top = 11, 50
    with Purgatory() as purgatory:
        racers: list[list[Racer]] = [[], []]

        def submit(who: int) -> None:
            rng = random.Random(seed + who)
            for _ in range(operations // 2):
                racer = Racer(10 * 60_000)
                count = rng.randint(1, 6)
                purgatory.try_complete_else_watch(
                    racer,
                    requires=[
                        (make_key(rng.randrange(keys)), rng.randint(-1, top)) for _ in range(count)
                    ],
                    needed=rng.choice((None, rng.randint(1, count))),
                )
                racers[who].append(racer)

        def signal(who: int) -> None:
            rng = random.Random(seed + 2 + who)
            last = operations // 2
            for n in range(last):
                highest = top * n // last
                purgatory.signal(make_key(rng.randrange(keys)), rng.randint(highest - 9, highest))
            purgatory.signal_many((make_key(key), top) for key in range(keys) if key % 2 == who)

        in_threads(
            lambda: submit(0),
            lambda: submit(1),
            lambda: signal(0),
            lambda: signal(1),
        )
        left = [racer for mine in racers for racer in mine if racer.endings != ["completed"]]
        assert left == []
        assert nothing_is_left(purgatory)
        metrics = purgatory.metrics()
        assert metrics.completed == operations
        assert metrics.known_keys == keys


@pytest.mark.parametrize("make_key", MAKE_KEY)
def test_no_wake_up_is_lost_between_submitting_and_signalling(
    make_key: Callable[[int], Hashable],
) -> None:
    for _ in range(5):
        _wake_all(1_000, make_key, seed=seed())


@pytest.mark.nightly
@pytest.mark.parametrize("make_key", MAKE_KEY)
def test_no_wake_up_is_lost_between_submitting_and_signalling_all_night(
    make_key: Callable[[int], Hashable],
) -> None:
    for _ in range(250):
        _wake_all(2_000, make_key, seed=seed())


@pytest.mark.parametrize("make_key", MAKE_KEY)
def test_a_signal_finds_an_operation_or_the_operation_finds_the_signal(
    make_key: Callable[[int], Hashable],
) -> None:
    """One thread submits to keys from the first on, another signals them from the last on."""
    meetings, keys = 200, 10
    with Purgatory() as purgatory:
        meet = threading.Barrier(2)
        at_once: dict[int, int] = {}
        found: dict[int, int] = {}

        def submit() -> None:
            for first in range(0, meetings * keys, keys):
                meet.wait(WAIT_S)
                for n in range(first, first + keys):
                    requires = [(make_key(n), 1), (make_key(n), 0)]
                    at_once[n] = purgatory.try_complete_else_watch(Racer(60_000), requires=requires)

        def signal() -> None:
            for first in range(0, meetings * keys, keys):
                meet.wait(WAIT_S)
                for n in reversed(range(first, first + keys)):
                    found[n] = purgatory.signal(make_key(n), 1)

        in_threads(submit, signal)
        assert {at_once[n] + found[n] for n in range(meetings * keys)} == {1}
        assert nothing_is_left(purgatory)


def test_of_all_who_end_one_operation_one_is_told_that_it_did() -> None:
    racers = 3_000
    with Purgatory() as purgatory:
        operations = [Racer(60_000) for _ in range(racers)]
        for n, operation in enumerate(operations):
            requires = [((n, "a"), 1), ((n, "b"), 1)]
            purgatory.try_complete_else_watch(operation, requires=requires, needed=1)
        ended: list[list[int]] = [[], [], []]
        in_threads(
            lambda: ended[0].extend(purgatory.signal((n, "a"), 1) for n in range(racers)),
            lambda: ended[1].extend(purgatory.signal((n, "b"), 1) for n in range(racers)),
            lambda: ended[2].extend(operation.cancel() for operation in operations),
        )
        assert [sum(told) for told in zip(*ended, strict=True)] == [1] * racers
        assert all(o.endings == ["completed"] for o in operations if o.is_completed)
        assert nothing_is_left(purgatory)


def test_the_last_two_of_many_requirements_may_come_at_the_same_moment() -> None:
    racers = 3_000
    with Purgatory() as purgatory:
        operations = [Racer(60_000) for _ in range(racers)]
        for n, operation in enumerate(operations):
            requires = [((n, "a"), 1), ((n, "b"), 1), ((n, "a"), 0)]
            purgatory.try_complete_else_watch(operation, requires=requires)
        ended: list[list[int]] = [[], []]
        in_threads(
            lambda: ended[0].extend(purgatory.signal((n, "a"), 1) for n in range(racers)),
            lambda: ended[1].extend(purgatory.signal((n, "b"), 1) for n in range(racers)),
        )
        assert [sum(told) for told in zip(*ended, strict=True)] == [1] * racers
        assert all(operation.endings == ["completed"] for operation in operations)
        assert nothing_is_left(purgatory)


# Keys come and go.


@pytest.mark.parametrize("make_key", MAKE_KEY)
def test_operations_cancelled_and_submitted_again_by_many_threads_are_not_lost(
    make_key: Callable[[int], Hashable],
) -> None:
    """Keys without progress come with the first who waits and go with the last, all the time."""
    operations, threads, rounds, keys = 12, 4, 400, 5
    with Timer() as timer:
        purgatories = [Purgatory("one", timer), Purgatory("two", timer)]
        racers = [Racer(10 * 60_000) for _ in range(operations)]
        number = {id(racer): n for n, racer in enumerate(racers)}

        def requires(racer: DelayedOperation) -> list[tuple[Hashable, int]]:
            n = number[id(racer)]
            return [(make_key(n % keys), 1), (make_key((n + 1) % keys), 1)]

        for racer in racers:
            purgatories[0].try_complete_else_watch(racer, requires=requires(racer))

        def juggle(seed: int) -> None:
            rng = random.Random(seed)
            for _ in range(rounds):
                for racer in rng.choice(purgatories).cancel_for_key(make_key(rng.randrange(keys))):
                    rng.choice(purgatories).try_complete_else_watch(racer, requires=requires(racer))

        in_threads(*(lambda seed=seed: juggle(seed) for seed in range(threads)))
        assert sum(purgatory.watched for purgatory in purgatories) == 2 * operations
        assert sum(purgatory.delayed for purgatory in purgatories) == operations
        assert len(timer) == operations
        signals = [(make_key(key), 1) for key in range(keys)]
        assert sum(purgatory.signal_many(signals) for purgatory in purgatories) == operations
        assert all(racer.endings == ["completed"] for racer in racers)
        assert all(nothing_is_left(purgatory) for purgatory in purgatories)


@pytest.mark.parametrize("make_key", MAKE_KEY)
def test_keys_forgotten_while_others_look_them_up_lose_nobody(
    make_key: Callable[[int], Hashable],
) -> None:
    """Keys are forgotten as soon as nobody waits, and signalled again and again until all hold."""
    operations, keys = 2_000, 7
    with Purgatory(forget_keys_after_ms=0) as purgatory:
        racers = [Racer(10 * 60_000) for _ in range(operations)]
        done = threading.Event()

        def submit(mine: list[Racer], seed: int) -> None:
            rng = random.Random(seed)
            for racer in mine:
                requires = [(make_key(rng.randrange(keys)), rng.randint(0, 1)) for _ in range(3)]
                purgatory.try_complete_else_watch(racer, requires=requires)
            for racer in mine:
                assert racer.permits.acquire(timeout=WAIT_S), "a wake-up was lost"
            done.set()

        def signal(seed: int) -> None:
            rng = random.Random(seed)
            for n in range(10**9):
                purgatory.signal(make_key(n % keys), rng.randint(0, 1))
                if n % 100 == 0 and all(racer.is_completed for racer in racers):
                    return

        in_threads(
            lambda: submit(racers[::2], 1),
            lambda: submit(racers[1::2], 2),
            lambda: signal(3),
            lambda: signal(4),
        )
        assert done.is_set()
        assert all(racer.endings == ["completed"] for racer in racers)
        assert nothing_is_left(purgatory)
        assert purgatory.metrics().known_keys <= keys


def test_of_two_threads_that_submit_one_operation_one_is_refused() -> None:
    rounds = 1_000
    with Timer() as timer:
        purgatories = [Purgatory("one", timer), Purgatory("two", timer)]
        racers = [Racer(60_000) for _ in range(rounds)]
        refused: list[int] = []

        def submit(purgatory: Purgatory) -> None:
            for n, racer in enumerate(racers):
                try:
                    purgatory.try_complete_else_watch(racer, requires=[("a", n), ("b", n)])
                except AlreadyWaiting:
                    refused.append(n)

        in_threads(*(lambda p=p: submit(p) for p in purgatories))
        assert sorted(refused) == list(range(rounds))
        assert sum(purgatory.watched for purgatory in purgatories) == 2 * rounds
        assert sum(purgatory.delayed for purgatory in purgatories) == rounds
        assert sum(purgatory.close() for purgatory in purgatories) == rounds
        assert all(nothing_is_left(purgatory) for purgatory in purgatories)


def test_closing_while_others_submit_and_signal_loses_and_keeps_nothing() -> None:
    for turn in range(10):
        purgatory = Purgatory()
        racers: list[Racer] = []
        submitted = threading.Event()
        closed = threading.Event()

        def submit(
            least: int = 20 * turn,
            purgatory: Purgatory = purgatory,
            racers: list[Racer] = racers,
            submitted: threading.Event = submitted,
            closed: threading.Event = closed,
        ) -> None:
            for n in range(100_000):
                racer = Racer(60_000)
                try:
                    purgatory.try_complete_else_watch(racer, requires=[("a", n), (n % 5, 1)])
                except Closed:
                    assert closed.wait(WAIT_S)
                    return
                racers.append(racer)
                if n >= least:
                    submitted.set()

        def signal(purgatory: Purgatory = purgatory, closed: threading.Event = closed) -> None:
            n = 0
            while not closed.is_set():
                n += 1
                purgatory.signal_many([("a", n), (n % 5, 1)])

        def close(
            purgatory: Purgatory = purgatory,
            submitted: threading.Event = submitted,
            closed: threading.Event = closed,
        ) -> None:
            assert submitted.wait(WAIT_S)
            purgatory.close()
            closed.set()

        in_threads(submit, submit, signal, close)
        assert nothing_is_left(purgatory)
        states = [racer.state for racer in racers]
        assert set(states) <= {"completed", "cancelled"}
        metrics = purgatory.metrics()
        assert metrics.completed == states.count("completed")
        assert metrics.cancelled == states.count("cancelled")
