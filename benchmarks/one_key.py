"""Very many operations that wait for progress on one key, as on a popular partition.

Each waits for an offset of its own. Two questions:

- *not ready*: what does one signal cost that completes nobody? Each signal moves the key's
  progress up by one and stays below every offset that is waited for.
- *one by one*: n operations wait for the offsets 1 to n, and each signal completes exactly one;
  how many completions a second? They are submitted in the order of their offsets, or shuffled.

Asked of three: progress conditions, where a signal finds those it satisfies; `check_and_complete`,
which tries all of them, with a `try_complete` in Python that compares two numbers; and Kafka's
`checkAndComplete`, the same in Java. The last two look at every operation for every signal, so
one by one they are measured with fewer operations.

Timed: signalling; one by one also building and submitting the operations, with what they
require, after a round to warm up. One thread does all of it; nothing expires during a run.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from benchmarks import inputs
from benchmarks.case import Skipped
from benchmarks.stopwatch import Stopwatch
from sojourn import DelayedOperation, Purgatory

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from benchmarks.case import Row

_TIMEOUT_MS = 600_000  # longer than any run
_FAR = 1_000_000_000  # an offset that no signal reaches
_BATCH_NS = 10_000_000


def measure(name: str, params: dict[str, Any]) -> Row:
    waiters = _WAITERS[name]()
    offsets = [1 + n for n in inputs.read(params["offsets"])]
    if params["ready"]:
        one_by_one(waiters, "warm-up", offsets)
        row = one_by_one(waiters, "key", offsets)
    else:
        row = not_ready(waiters, "key", offsets, params["signal_ms"])
    waiters.close()
    return row


def one_by_one(waiters: Waiters, key: str, offsets: Sequence[int]) -> Row:
    submitting, signalling = Stopwatch(), Stopwatch()
    signals = range(1, len(offsets) + 1)
    with submitting:
        waiters.submit_all(key, offsets)
    with signalling:
        completed = waiters.signal_all(key, signals)
    if (completed, waiters.ended.take()) != (len(offsets), len(offsets)):
        raise AssertionError(f"{completed} of {len(offsets)} were completed")
    return {
        "submit_us": submitting.wall_ns / 1e3 / len(offsets),
        "submit_cpu_us": submitting.cpu_ns / 1e3 / len(offsets),
        "signal_us": signalling.wall_ns / 1e3 / len(offsets),
        "signal_cpu_us": signalling.cpu_ns / 1e3 / len(offsets),
        "completions_per_s": len(offsets) * 1e9 / signalling.wall_ns,
    }


def not_ready(waiters: Waiters, key: str, offsets: Sequence[int], signal_ms: int) -> Row:
    """Signal for about this long, in batches of a few milliseconds or of one signal."""
    waiters.submit_all(key, [_FAR + offset for offset in offsets])
    batch = 1
    while True:  # to warm up
        started = perf_counter_ns()
        waiters.signal_all(key, range(batch, 2 * batch))
        if perf_counter_ns() - started >= _BATCH_NS:
            break
        batch *= 2
    signalling = Stopwatch()
    following = 2 * batch
    signals = completed = 0
    while signalling.wall_ns < signal_ms * 1_000_000:
        with signalling:
            completed += waiters.signal_all(key, range(following, following + batch))
        signals += batch
        following += batch
    if completed or waiters.ended.take():
        raise AssertionError(f"{completed} were completed by signals that they do not wait for")
    return {
        "signal_us": signalling.wall_ns / 1e3 / signals,
        "signal_cpu_us": signalling.cpu_ns / 1e3 / signals,
    }


class Ended:
    """How many operations have ended since somebody last asked."""

    def __init__(self) -> None:
        self.count = 0

    def take(self) -> int:
        count, self.count = self.count, 0
        return count


class Waiter(DelayedOperation):
    """A user's operation that waits for progress: nothing but a callback, with slots."""

    __slots__ = ("ended",)

    def __init__(self, ended: Ended) -> None:
        super().__init__(_TIMEOUT_MS)
        self.ended = ended

    def on_complete(self) -> None:
        self.ended.count += 1


class Log:
    """What has come so far on a key; whoever signals writes it first."""

    def __init__(self) -> None:
        self.end = 0


class TryingWaiter(Waiter):
    """A user's operation that is tried: it looks at the log itself."""

    __slots__ = ("log", "offset")

    def __init__(self, ended: Ended, log: Log, offset: int) -> None:
        super().__init__(ended)
        self.log = log
        self.offset = offset

    def try_complete(self) -> bool:
        return self.log.end >= self.offset and self.force_complete()


class Waiters(ABC):
    """Operations on one key, and the signals they wait for; whole batches, as a user's loop."""

    def __init__(self) -> None:
        self.purgatory = Purgatory("bench")
        self.ended = Ended()

    @abstractmethod
    def submit_all(self, key: str, offsets: Iterable[int]) -> None:
        """Let an operation wait for each offset."""

    @abstractmethod
    def signal_all(self, key: str, offsets: Iterable[int]) -> int:
        """Signal each offset; how many operations that completed."""

    def close(self) -> None:
        self.purgatory.close()


class Requiring(Waiters):
    """Progress conditions."""

    def __init__(self) -> None:
        super().__init__()
        if not hasattr(self.purgatory, "signal"):
            raise Skipped("this sojourn has no progress conditions")

    def submit_all(self, key: str, offsets: Iterable[int]) -> None:
        submit, ended = self.purgatory.try_complete_else_watch, self.ended
        for offset in offsets:
            submit(Waiter(ended), requires=((key, offset),))

    def signal_all(self, key: str, offsets: Iterable[int]) -> int:
        signal = self.purgatory.signal
        completed = 0
        for offset in offsets:
            completed += signal(key, offset)
        return completed


class RequiringInBulk(Requiring):
    """Progress conditions, all submitted in one call and all signalled in another."""

    def submit_all(self, key: str, offsets: Iterable[int]) -> None:
        ended = self.ended
        self.purgatory.submit_many([(Waiter(ended), ((key, offset),)) for offset in offsets])

    def signal_all(self, key: str, offsets: Iterable[int]) -> int:
        return self.purgatory.signal_many([(key, offset) for offset in offsets])


class Trying(Waiters):
    """Watch keys: a signal tries every operation on the key."""

    def __init__(self) -> None:
        super().__init__()
        self._log = Log()

    def submit_all(self, key: str, offsets: Iterable[int]) -> None:
        submit, ended, keys = self.purgatory.try_complete_else_watch, self.ended, (key,)
        log = self._log = Log()
        for offset in offsets:
            submit(TryingWaiter(ended, log, offset), keys)

    def signal_all(self, key: str, offsets: Iterable[int]) -> int:
        check, log = self.purgatory.check_and_complete, self._log
        completed = 0
        for offset in offsets:
            log.end = offset
            completed += check(key)
        return completed


_WAITERS: dict[str, type[Waiters]] = {
    "progress": Requiring,
    "progress-bulk": RequiringInBulk,
    "purgatory": Trying,
}
