"""Races on the system clock: signals, timeouts and cancels meet, and each operation ends once."""

from __future__ import annotations

import random
import threading
from typing import TYPE_CHECKING

import pytest

from sojourn import DelayedOperation, Purgatory, Timer
from sojourn.errors import AlreadyWaiting
from tests.seeds import seed

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

pytestmark = pytest.mark.usefixtures("close_interleaving")

WAIT_S = 60.0
BURST = 500


class Racer(DelayedOperation):
    """Fails while it is being submitted, and completes at any signal after that."""

    def __init__(
        self,
        number: int,
        timeout_ms: int,
        just_true: bool = False,
        done: Callable[[], object] = lambda: None,
        late: Callable[[], object] = lambda: None,
    ) -> None:
        super().__init__(timeout_ms)
        self.number = number
        self.just_true = just_true
        self.submitted = False
        self.endings: list[str] = []
        self._done = done
        self._late = late

    def try_complete(self) -> bool:
        return self.submitted and (self.just_true or self.force_complete())

    def on_complete(self) -> None:
        self.endings.append("expired" if self.is_expired else "completed")
        self._done()

    def on_expiration(self) -> None:
        self.endings.append("on_expiration")
        self._late()


class Race:
    """Threads that signal and cancel random keys while operations come in and time out.

    An operation has ended when it has called `on_complete` or was returned by a cancel; each
    ending lets go of one permit, so that the race knows without asking when a burst is over.
    """

    def __init__(self, seed: int, keys: int) -> None:
        self.timer = Timer(name="races")
        self.purgatory = Purgatory("races", self.timer)
        self.rng = random.Random(seed)
        self.keys = keys
        self.permits = threading.Semaphore(0)
        self.late = threading.Semaphore(0)
        self.stop = threading.Event()
        self.signalled = 0
        self.cancelled: list[DelayedOperation] = []
        self.threads = [
            threading.Thread(target=self._hammer, args=(work, seed + number), daemon=True)
            for number, work in enumerate((self._signal, self._signal, self._cancel))
        ]
        self._counting = threading.Lock()

    def __enter__(self) -> Race:
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        for thread in self.threads:
            thread.join(WAIT_S)
        self.purgatory.close()
        self.timer.close()

    def submit(self, number: int) -> Racer:
        rng = self.rng
        racer = Racer(
            number,
            rng.randint(0, 3),
            rng.random() < 0.5,
            self.permits.release,
            self.late.release,
        )
        keys = [rng.randrange(self.keys) for _ in range(rng.randint(1, 3))]
        assert not self.purgatory.try_complete_else_watch(racer, keys)
        racer.submitted = True
        return racer

    def await_end(self, racers: int) -> None:
        for _ in range(racers):
            assert self.permits.acquire(timeout=WAIT_S), "an operation never ended"

    def _hammer(self, work: Callable[[int], None], seed: int) -> None:
        rng = random.Random(seed)
        while not self.stop.is_set():
            work(rng.randrange(self.keys))

    def _signal(self, key: int) -> None:
        completed = self.purgatory.check_and_complete(key)
        with self._counting:
            self.signalled += completed

    def _cancel(self, key: int) -> None:
        cancelled = self.purgatory.cancel_for_key(key)
        self.cancelled += cancelled
        for _ in cancelled:
            self.permits.release()
        for _ in range(100):  # else it would win most races
            if self.stop.is_set():
                return


def _race(races: int, seed: int) -> None:
    """Run that many races; every one ends in one way, and nothing is left."""
    ways = {"completed": 0, "expired": 0, "cancelled": 0}
    with Race(seed, keys=97) as race:
        for first in range(0, races, BURST):
            racers = [race.submit(number) for number in range(first, first + BURST)]
            race.await_end(BURST)
            cancelled = {id(operation) for operation in race.cancelled}
            assert len(cancelled) == len(race.cancelled)
            race.cancelled.clear()
            for racer in racers:
                if id(racer) in cancelled:
                    assert racer.endings == []
                    assert not racer.is_completed
                    ways["cancelled"] += 1
                elif racer.is_expired:
                    assert race.late.acquire(timeout=WAIT_S)  # it comes after on_complete
                    ways["expired"] += 1
                else:
                    assert racer.endings == ["completed"]
                    ways["completed"] += 1
            assert all(r.endings == ["expired", "on_expiration"] for r in racers if r.is_expired)
    assert not race.permits.acquire(blocking=False), "an operation ended twice"
    assert not race.late.acquire(blocking=False), "an operation expired twice"
    assert not any(thread.is_alive() for thread in race.threads)
    purgatory = race.purgatory
    assert (purgatory.watched, purgatory.delayed, len(race.timer)) == (0, 0, 0)
    metrics = purgatory.metrics()
    assert (metrics.completed, metrics.expired, metrics.cancelled) == tuple(ways.values())
    assert sum(ways.values()) == races
    assert race.signalled == ways["completed"]
    assert metrics.errors == 0
    assert min(ways.values()) > races // 1000, f"not much of a race: {ways}"


def test_fifty_thousand_races_between_signal_timeout_and_cancel_end_once_each() -> None:
    _race(50_000, seed=seed())


@pytest.mark.nightly
def test_a_million_races_between_signal_timeout_and_cancel_end_once_each() -> None:
    _race(1_000_000, seed=seed())


def _in_threads(*parts: Callable[[], object]) -> None:
    """Run the parts in as many threads; an error in one is raised here."""
    errors: list[BaseException] = []

    def guarded(part: Callable[[], object]) -> Callable[[], None]:
        def run() -> None:
            try:
                part()
            except BaseException as error:
                errors.append(error)

        return run

    threads = [threading.Thread(target=guarded(part), daemon=True) for part in parts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
        assert not thread.is_alive()
    if errors:
        raise errors[0]


def test_of_all_who_complete_one_operation_one_is_told_that_it_did() -> None:
    racers, threads = 2_000, 4
    with Purgatory() as purgatory:
        operations = [Racer(number, 60_000) for number in range(racers)]
        for operation in operations:
            purgatory.try_complete_else_watch(operation, [operation.number])
            operation.submitted = True
        start = threading.Barrier(threads)
        told: list[list[bool]] = [[] for _ in range(threads)]

        def force(mine: list[bool]) -> None:
            start.wait(WAIT_S)
            mine.extend(operation.force_complete() for operation in operations)

        def attempt(mine: list[bool]) -> None:
            start.wait(WAIT_S)
            mine.extend(operation.safe_try_complete() for operation in operations)

        def signal(mine: list[bool]) -> None:
            start.wait(WAIT_S)
            mine.extend(purgatory.check_and_complete(n) == 1 for n in range(racers))

        _in_threads(
            lambda: force(told[0]),
            lambda: force(told[1]),
            lambda: attempt(told[2]),
            lambda: signal(told[3]),
        )
        assert [sum(answers) for answers in zip(*told, strict=True)] == [1] * racers
        assert [operation.endings for operation in operations] == [["completed"]] * racers
        assert (purgatory.watched, purgatory.delayed, len(purgatory.timer)) == (0, 0, 0)


def test_operations_cancelled_and_submitted_again_by_many_threads_are_not_lost() -> None:
    """Whoever cancels an operation submits it again, in one of two purgatories on one timer.

    However often it went back and forth, in the end it waits in one place and expires there.
    """
    operations, threads, rounds = 20, 4, 400
    with Timer() as timer:
        purgatories = [Purgatory("one", timer), Purgatory("two", timer)]
        racers = [Racer(number, 60_000) for number in range(operations)]
        for racer in racers:
            purgatories[0].try_complete_else_watch(racer, [racer.number % 7])
        start = threading.Barrier(threads)

        def juggle(seed: int) -> None:
            rng = random.Random(seed)
            start.wait(WAIT_S)
            for _ in range(rounds):
                for racer in rng.choice(purgatories).cancel_for_key(rng.randrange(7)):
                    assert isinstance(racer, Racer)
                    rng.choice(purgatories).try_complete_else_watch(racer, [racer.number % 7])

        _in_threads(*(lambda seed=seed: juggle(seed) for seed in range(threads)))
        assert sum(purgatory.watched for purgatory in purgatories) == operations
        assert sum(purgatory.delayed for purgatory in purgatories) == operations
        assert len(timer) == operations
        for racer in racers:
            racer.submitted = True
        completed = sum(p.check_and_complete(key) for p in purgatories for key in range(7))
        assert completed == operations
        assert len(timer) == 0


def test_of_two_threads_that_submit_one_operation_one_is_refused() -> None:
    rounds = 1_000
    with Timer() as timer:
        purgatories = [Purgatory("one", timer), Purgatory("two", timer)]
        racers = [Racer(number, 60_000) for number in range(rounds)]
        start = threading.Barrier(2)
        refused: list[int] = []

        def submit(purgatory: Purgatory) -> None:
            start.wait(WAIT_S)
            for racer in racers:
                try:
                    purgatory.try_complete_else_watch(racer, ["a"])
                except AlreadyWaiting:
                    refused.append(racer.number)

        _in_threads(*(lambda p=p: submit(p) for p in purgatories))
        assert sorted(refused) == list(range(rounds))
        assert sum(purgatory.watched for purgatory in purgatories) == rounds
        assert sum(purgatory.delayed for purgatory in purgatories) == rounds
        assert len(timer) == rounds
        assert sum(purgatory.close() for purgatory in purgatories) == rounds
        assert len(timer) == 0


def test_closing_while_others_submit_loses_and_keeps_nothing() -> None:
    for turn in range(20):
        timer = Timer()
        purgatory = Purgatory(timer=timer)
        start = threading.Barrier(4)
        futures: list[Future[bool]] = []
        closed = threading.Event()

        def submit(
            start: threading.Barrier = start,
            purgatory: Purgatory = purgatory,
            futures: list[Future[bool]] = futures,
            closed: threading.Event = closed,
        ) -> None:
            start.wait(WAIT_S)
            for number in range(10_000):
                try:
                    futures.append(purgatory.submit(DelayedOperation(60_000), [number % 5]))
                except RuntimeError:  # Closed
                    assert closed.wait(WAIT_S)
                    return

        def close(
            start: threading.Barrier = start,
            purgatory: Purgatory = purgatory,
            futures: list[Future[bool]] = futures,
            closed: threading.Event = closed,
            least: int = 20 * turn,
        ) -> None:
            start.wait(WAIT_S)
            while len(futures) < least:
                pass
            purgatory.close()
            closed.set()

        _in_threads(submit, submit, submit, close)
        assert (purgatory.watched, purgatory.delayed, len(timer)) == (0, 0, 0)
        assert all(future.cancelled() for future in futures)
        timer.close()


def test_futures_cancelled_as_their_operations_expire_leave_nothing() -> None:
    rounds = 3_000
    with Timer() as timer:
        purgatory = Purgatory(timer=timer)
        rng = random.Random(5)
        for _ in range(rounds // 100):
            futures = [
                purgatory.submit(DelayedOperation(rng.randint(0, 2)), [n % 5]) for n in range(100)
            ]
            cancelled = [future.cancel() for future in futures]
            for future, was_cancelled in zip(futures, cancelled, strict=True):
                if was_cancelled:
                    assert future.cancelled()
                else:
                    assert future.result(timeout=WAIT_S) is False
        # A future may be cancelled between its operation's expiry and its own settling.
        assert timer.close() == 0
        metrics = purgatory.metrics()
        assert metrics.expired + metrics.cancelled == rounds
        assert (purgatory.watched, purgatory.delayed, len(timer)) == (0, 0, 0)
