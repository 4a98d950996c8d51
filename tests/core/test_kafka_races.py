"""Two races that Kafka had, step by step: ours must not have them, and a broken copy must.

KAFKA-6653, a wake-up that is lost:

    1. A is inside try_complete and has looked at the condition: not yet.
    2. B makes the condition true and signals.
    3. A comes back from try_complete: nobody is left to try again, unless somebody remembers.

KAFKA-8334, a deadlock with a lock of the user's:

    1. A holds the user's lock for reading and submits: the first try fails, it is watched.
    2. B wants the user's lock for writing; from here on, new readers wait behind it.
    3. C signals. Inside try_complete it wants the user's lock for reading and waits behind B.
    4. A tries the second time. If it needs what C holds, all three wait for ever.
"""

from __future__ import annotations

import contextlib
import random
import threading
from typing import TYPE_CHECKING, Protocol

import pytest

from sojourn import DelayedOperation, ManualClock, Purgatory
from tests.core.broken import ForgetsNews, WaitsForTheTrier

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

WAIT_S = 30.0
HANGS_S = 0.5  # after which a thread of a broken copy is taken to hang


class AnyPurgatory(Protocol):
    def try_complete_else_watch(
        self, operation: DelayedOperation, keys: Iterable[Hashable]
    ) -> bool: ...

    def check_and_complete(self, key: Hashable) -> int: ...


def sound(between: Callable[[], object] = lambda: None) -> AnyPurgatory:
    return Purgatory(clock=ManualClock())


def started(target: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=target, daemon=True)
    thread.start()
    return thread


# KAFKA-6653.


class Flagged(DelayedOperation):
    """Completes when the flag is up; can be held up just after it has looked."""

    def __init__(self, purgatory: AnyPurgatory, hold_up_try: int) -> None:
        super().__init__(60_000)
        self.purgatory = purgatory
        self.flag = False
        self.tries = 0
        self.hold_up_try = hold_up_try
        self.has_looked = threading.Event()
        self.go_on = threading.Event()

    def try_complete(self) -> bool:
        self.tries += 1
        if self.tries == 1:
            self.purgatory.check_and_complete("elsewhere")  # a reason for the second try
        flag = self.flag
        if self.tries == self.hold_up_try:
            self.has_looked.set()
            assert self.go_on.wait(WAIT_S)
        return flag and self.force_complete()


def _news_during_a_try(purgatory: AnyPurgatory, during: str) -> Flagged:
    """Signal while another thread is inside try_complete; return the operation afterwards."""
    operation = Flagged(purgatory, 2 if during == "second try" else 3)
    if during == "second try":
        a = started(lambda: purgatory.try_complete_else_watch(operation, ["a"]))
    else:
        purgatory.try_complete_else_watch(operation, ["a"])
        if during == "signal":
            a = started(lambda: purgatory.check_and_complete("a"))
        else:
            a = started(operation.safe_try_complete)
    assert operation.has_looked.wait(WAIT_S)  # 1. A has looked
    operation.flag = True
    b = started(lambda: purgatory.check_and_complete("a"))  # 2. B signals
    b.join(WAIT_S)
    assert not b.is_alive(), "the signalling thread waits for the one inside user code"
    operation.go_on.set()  # 3. A comes back
    a.join(WAIT_S)
    assert not a.is_alive()
    return operation


@pytest.mark.parametrize("during", ["second try", "signal", "safe_try_complete"])
def test_news_during_a_try_is_not_lost(during: str) -> None:
    assert _news_during_a_try(sound(), during).is_completed


@pytest.mark.parametrize("during", ["second try", "signal"])
def test_a_purgatory_that_forgets_news_is_caught(during: str) -> None:
    assert not _news_during_a_try(ForgetsNews(), during).is_completed


def test_news_during_the_first_try_is_not_lost() -> None:
    """Nobody can signal it yet: the second try is there for that."""
    purgatory = sound()
    operation = Flagged(purgatory, 1)
    a = started(lambda: purgatory.try_complete_else_watch(operation, ["a"]))
    assert operation.has_looked.wait(WAIT_S)
    operation.flag = True
    assert purgatory.check_and_complete("a") == 0
    operation.go_on.set()
    a.join(WAIT_S)
    assert operation.is_completed


def test_news_during_the_second_of_two_tries_caused_by_news_is_not_lost() -> None:
    """The mark is taken down before the condition is looked at, so it can be set again."""
    purgatory = sound()

    class Twice(Flagged):
        def try_complete(self) -> bool:
            answer = super().try_complete()
            if self.tries == 4:  # again, because of the first mark, and again too early
                self.flag = True
                b = started(lambda: purgatory.check_and_complete("a"))
                b.join(WAIT_S)
                return False
            return answer

    operation = Twice(purgatory, 3)
    purgatory.try_complete_else_watch(operation, ["a"])
    a = started(lambda: purgatory.check_and_complete("a"))
    assert operation.has_looked.wait(WAIT_S)
    assert purgatory.check_and_complete("a") == 0
    operation.go_on.set()
    a.join(WAIT_S)
    assert operation.tries == 5
    assert operation.is_completed


# KAFKA-8334.


class GivenUp(Exception):
    """A wait was ended from outside, to let the threads of a broken copy go."""


class FairLock:
    """A lock for reading and writing of the user's: readers wait behind a writer that waits.

    Its own reader may take it again at any time, as with Java's ReentrantReadWriteLock.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._readers: list[int] = []
        self._writing = False
        self._wanting = 0
        self._given_up = False

    def read(self) -> None:
        me = threading.get_ident()
        with self._changed:
            if me not in self._readers:
                self._until(lambda: not self._writing and not self._wanting)
            self._readers.append(me)

    def read_no_more(self) -> None:
        with self._changed:
            self._readers.remove(threading.get_ident())
            self._changed.notify_all()

    def write(self) -> None:
        with self._changed:
            self._wanting += 1
            self._changed.notify_all()
            try:
                self._until(lambda: not self._readers and not self._writing)
                self._writing = True
            finally:
                self._wanting -= 1

    def write_no_more(self) -> None:
        with self._changed:
            self._writing = False
            self._changed.notify_all()

    def await_writer(self) -> None:
        """Come back when a writer waits."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._wanting, WAIT_S)

    def give_up(self) -> None:
        """Let everybody who waits go, with an error."""
        with self._changed:
            self._given_up = True
            self._changed.notify_all()

    def _until(self, free: Callable[[], bool]) -> None:
        assert self._changed.wait_for(lambda: free() or self._given_up, WAIT_S)
        if self._given_up:
            raise GivenUp


class Story:
    """The three threads of KAFKA-8334."""

    def __init__(self) -> None:
        self.users = FairLock()
        self.c_may_signal = threading.Event()
        self.c_is_inside_or_back = threading.Event()
        self.a: threading.Thread | None = None
        self.purgatory: AnyPurgatory
        self.operation = self.Operation(self)

    class Operation(DelayedOperation):
        """Takes the user's lock to look at its condition, which never holds."""

        def __init__(self, story: Story) -> None:
            super().__init__(60_000)
            self.story = story
            self.tries_by_a = 0

        def try_complete(self) -> bool:
            story = self.story
            if threading.current_thread() is story.a:
                self.tries_by_a += 1
                if self.tries_by_a == 1:
                    story.purgatory.check_and_complete("elsewhere")  # a reason for the second
                if self.tries_by_a == 2:
                    story.between()
            else:
                story.c_is_inside_or_back.set()
            story.users.read()
            story.users.read_no_more()
            return False

    def between(self) -> None:
        """It is watched: let C signal, and go on when C is as far as it can get."""
        self.c_may_signal.set()
        assert self.c_is_inside_or_back.wait(WAIT_S)

    def tell(self, purgatory: AnyPurgatory, patience_s: float) -> bool:
        """Start the three; say whether all came to their end. None is left running."""
        self.purgatory = purgatory

        def a() -> None:
            self.users.read()  # 1.
            a_holds_it.set()
            self.users.await_writer()
            try:
                purgatory.try_complete_else_watch(self.operation, ["a"])
            finally:
                self.users.read_no_more()

        def b() -> None:
            assert a_holds_it.wait(WAIT_S)
            self.users.write()  # 2.
            self.users.write_no_more()

        def c() -> None:
            assert self.c_may_signal.wait(WAIT_S)
            purgatory.check_and_complete("a")  # 3.
            self.c_is_inside_or_back.set()

        def quietly(part: Callable[[], None]) -> Callable[[], None]:
            def play() -> None:
                with contextlib.suppress(GivenUp):
                    part()

            return play

        a_holds_it = threading.Event()
        threads = [threading.Thread(target=quietly(part), daemon=True) for part in (a, b, c)]
        self.a = threads[0]
        for thread in threads:
            thread.start()
        threads[0].join(patience_s)
        ended = not threads[0].is_alive()
        if not ended:
            self.users.give_up()
        for thread in threads:
            thread.join(WAIT_S)
            assert not thread.is_alive()
        return ended


def test_submitting_and_signalling_threads_do_not_deadlock_over_a_lock_of_the_users() -> None:
    story = Story()
    assert story.tell(sound(), WAIT_S)
    assert story.operation.tries_by_a >= 2


def test_a_purgatory_whose_signals_wait_for_the_trier_is_caught() -> None:
    story = Story()
    assert not story.tell(WaitsForTheTrier(story.between), HANGS_S)


def _signal_under_the_lock_that_a_try_waits_for(purgatory: AnyPurgatory, patience_s: float) -> bool:
    """1. A is inside try_complete and waits for the user's lock L, which B holds.
    2. B, still holding L, signals.
    3. B lets go of L.

    Say whether B came back from its signal while it held L.
    """
    users = threading.Lock()
    a_is_inside, b_is_back = threading.Event(), threading.Event()

    class TakesTheLock(DelayedOperation):
        def __init__(self) -> None:
            super().__init__(60_000)
            self.waits = False

        def try_complete(self) -> bool:
            if not self.waits:
                return False
            a_is_inside.set()
            with users:
                return self.force_complete()

    operation = TakesTheLock()
    purgatory.try_complete_else_watch(operation, ["a"])
    operation.waits = True
    users.acquire()
    a = started(lambda: purgatory.check_and_complete("a"))  # 1.
    assert a_is_inside.wait(WAIT_S)

    def signal() -> None:
        purgatory.check_and_complete("a")  # 2.
        b_is_back.set()

    b = started(signal)
    in_time = b_is_back.wait(patience_s)
    users.release()  # 3.
    for thread in (a, b):
        thread.join(WAIT_S)
        assert not thread.is_alive()
    assert operation.is_completed
    return in_time


def test_a_thread_may_signal_while_it_holds_the_lock_that_a_try_waits_for() -> None:
    assert _signal_under_the_lock_that_a_try_waits_for(sound(), WAIT_S)


def test_a_purgatory_that_waits_under_a_lock_of_the_users_is_caught() -> None:
    broken = WaitsForTheTrier(lambda: None)
    assert not _signal_under_the_lock_that_a_try_waits_for(broken, HANGS_S)


def test_a_thread_may_submit_while_it_holds_the_lock_that_a_try_waits_for() -> None:
    """The submitter's own tries take the lock too: it holds it, so they get it."""
    users = threading.RLock()
    purgatory = sound()

    class TakesTheLock(DelayedOperation):
        def try_complete(self) -> bool:
            with users:
                return False

    stop = threading.Event()

    def hammer() -> None:
        while not stop.is_set():
            purgatory.check_and_complete("a")

    signaller = started(hammer)
    for _ in range(200):
        with users:
            purgatory.try_complete_else_watch(TakesTheLock(60_000), ["a"])
    stop.set()
    signaller.join(WAIT_S)
    assert not signaller.is_alive()


@pytest.mark.parametrize("given", [False, True])
def test_a_lock_that_is_the_operations_own_may_be_held_while_signalling(given: bool) -> None:
    purgatory = sound()
    lock = threading.RLock()

    class Takes(DelayedOperation):
        flag = False

        def try_complete(self) -> bool:
            with lock:
                return self.flag and self.force_complete()

    operation = Takes(60_000, lock if given else None)
    with lock:
        purgatory.try_complete_else_watch(operation, ["a"])
        operation.flag = True
        assert purgatory.check_and_complete("a") == 1


# Kafka's test of tries from many threads.


@pytest.mark.usefixtures("close_interleaving")
@pytest.mark.parametrize("just_true", [False, True])
def test_each_operation_completes_once_when_its_last_attempt_is_over(just_true: bool) -> None:
    """100 operations × 20 attempts from 20 threads; the last attempt makes the condition true."""
    operations, attempts, threads = 100, 20, 20
    purgatory = Purgatory(clock=ManualClock())
    rng = random.Random(6653)

    class Counted(DelayedOperation):
        def __init__(self, number: int) -> None:
            super().__init__(600_000)
            self.key = f"key{number}"
            self.left = list(range(attempts))  # pop() is atomic
            self.may_complete = False
            self.endings = 0

        def try_complete(self) -> bool:
            may_complete = self.may_complete
            for _ in range(rng.randrange(400)):  # time for others to bring news
                pass
            return may_complete and (just_true or self.force_complete())

        def on_complete(self) -> None:
            self.endings += 1

    waiting = [Counted(number) for number in range(operations)]
    for operation in waiting:
        assert not purgatory.try_complete_else_watch(operation, [operation.key, "all"])

    jobs = [operation for operation in waiting for _ in range(attempts)]
    rng.shuffle(jobs)
    completed: list[int] = []
    start = threading.Barrier(threads)

    def work(share: list[Counted]) -> None:
        start.wait(WAIT_S)
        for operation in share:
            if operation.left.pop() == 0:
                operation.may_complete = True
            completed.append(purgatory.check_and_complete(operation.key))

    workers = [
        threading.Thread(target=work, args=(jobs[share::threads],)) for share in range(threads)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(2 * WAIT_S)
    assert [operation.endings for operation in waiting] == [1] * operations
    assert all(operation.is_completed for operation in waiting)
    assert sum(completed) == operations
    assert (purgatory.watched, purgatory.delayed, len(purgatory.timer)) == (0, 0, 0)
