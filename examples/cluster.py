"""A pretended cluster that puts a purgatory under load, for `examples.watch`.

Clients send produce requests with acks=all. Each writes to two or three partitions, and waits
until the follower of every one of them has fetched the records. A fetch takes a log-normal
time; every client has its own idea of how long it will wait. Now and then a broker stalls:
its partitions get no fetches, and the requests that touched them run out of time.
"""

from __future__ import annotations

import random
import threading
from time import monotonic

from examples.produce_acks import DelayedProduce, Partition
from sojourn import Purgatory, Timer

BROKERS = 8
PARTITIONS = 192
REQUESTS_PER_SECOND = 4000

_FETCH_MEDIAN_MS = 35.0
_FETCH_SIGMA = 0.7  # of the logarithm: one fetch in a hundred takes five times the median
_SHORTEST_TIMEOUT_MS = 100.0
_LONGEST_TIMEOUT_MS = 14_000.0
_BATCH_SECONDS = 0.005


class Cluster:
    """Partitions, their followers' fetches, and the clients. Runs from `start` to `stop`."""

    def __init__(self, purgatory: Purgatory, seed: int = 1) -> None:
        self.submitted = 0
        self.answers: list[int] = []  # how many partitions each answer spoke of
        self.stalled: int | None = None  # the broker that does not fetch
        self._purgatory = purgatory
        self._network = Timer(name="network")  # a fetch is a task that runs when it has arrived
        self._random = random.Random(seed)
        self._partitions = [Partition(f"orders-{n}") for n in range(PARTITIONS)]
        self._fetching: set[Partition] = set()
        self._changing = threading.Lock()  # over logs and fetches; never held in a signal
        self._stopping = threading.Event()
        self._clients = threading.Thread(target=self._send, name="clients", daemon=True)

    def start(self) -> None:
        self._clients.start()

    def stop(self) -> None:
        """Stop the clients and the network. What waits in the purgatory goes on waiting."""
        self._stopping.set()
        self._clients.join()
        self._network.close()

    def stall(self, broker: int | None) -> None:
        """Let a broker stop fetching, or none; what it has under way still arrives."""
        self.stalled = broker

    def recover(self) -> None:
        """Let the broker that stalls fetch again: it has everything to catch up with."""
        self.stalled = None
        for partition in self._partitions:
            self._fetch(partition)

    def _send(self) -> None:
        """The clients: as many requests as are owed since the last look."""
        began = monotonic()
        while not self._stopping.wait(_BATCH_SECONDS):
            owed = int((monotonic() - began) * REQUESTS_PER_SECOND) - self.submitted
            for _ in range(min(owed, REQUESTS_PER_SECOND // 10)):
                self._produce()

    def _produce(self) -> None:
        partitions = self._random.sample(self._partitions, self._random.choice((2, 3)))
        with self._changing:
            written = {partition: partition.append(1) for partition in partitions}
        spread = _LONGEST_TIMEOUT_MS / _SHORTEST_TIMEOUT_MS
        timeout_ms = int(_SHORTEST_TIMEOUT_MS * spread ** self._random.random())
        operation = DelayedProduce(written, timeout_ms, self._respond)
        self.submitted += 1
        self._purgatory.try_complete_else_watch(operation, partitions)
        for partition in partitions:
            self._fetch(partition)

    def _fetch(self, partition: Partition) -> None:
        """Let the follower fetch, unless it does already, has everything, or stalls."""
        with self._changing:
            if (
                partition in self._fetching
                or partition.high_watermark == partition.log_end
                or self._follower(partition) == self.stalled
                or self._stopping.is_set()
            ):
                return
            self._fetching.add(partition)
            upto = partition.log_end
            took_ms = int(_FETCH_MEDIAN_MS * self._random.lognormvariate(0, _FETCH_SIGMA))
        self._network.call_later(took_ms, self._fetched, partition, upto)

    def _fetched(self, partition: Partition, upto: int) -> None:
        with self._changing:
            partition.high_watermark = upto
            self._fetching.discard(partition)
        self._purgatory.check_and_complete(partition)
        self._fetch(partition)

    def _follower(self, partition: Partition) -> int:
        return int(partition.name.partition("-")[2]) % BROKERS

    def _respond(self, answers: dict[str, str]) -> None:
        self.answers.append(len(answers))
