"""Threads that stop, start, close and script faults at random: nothing hangs, nothing is left."""

from __future__ import annotations

import gc
import logging
import os
import random
import socket
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator

import pytest

from tests.seeds import seed

pytest.importorskip("kio", reason="kio is not installed: pip install sojourn[kafka]")

from sojourn import ManualClock
from sojourn.errors import Closed, SojournError
from sojourn.kafka import Cluster
from sojourn.kafka.control import Control
from tests.kafka.wire_client import WireClient, connect
from tests.until import PATIENCE_S

BROKERS = 3
WARM_UP = 4

pytestmark = pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="no /proc to count in")


class Commotion:
    """One cluster, and threads that do at random what can be done to it, until it is closed."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.clock = ManualClock() if rng.random() < 0.5 else None
        self.cluster = Cluster(
            BROKERS,
            clock=self.clock,
            config={"replica.lag.time.max.ms": 50, "group.initial.rebalance.delay.ms": 5},
        )
        self.cluster.create_topic("t", 2, 3)
        self._moving = threading.Lock()
        self.unexpected: list[BaseException] = []
        self.calls = 0
        self._is_over = False

    def run(self, length_s: float) -> None:
        threads = [
            threading.Thread(target=self._act, args=(step, random.Random(self._rng.random())))
            for step in (self._disturb, self._disturb, self._ask, self._ask, self._control)
        ]
        for thread in threads:
            thread.start()
        time.sleep(length_s)  # how long the commotion lasts
        if self._rng.random() < 0.5:
            self._is_over = True
        self.cluster.close()  # also while they go on
        self._is_over = True
        for thread in threads:
            thread.join(PATIENCE_S)
            assert not thread.is_alive(), f"{thread} hangs"
        self.cluster.close()
        assert not self.unexpected, self.unexpected

    def _act(self, step: Callable[[random.Random], None], rng: random.Random) -> None:
        while not self._is_over:
            try:
                step(rng)
                self.calls += 1
            except (SojournError, OSError):
                continue  # closed, refused, or the other end is gone
            except BaseException as error:
                self.unexpected.append(error)
                return

    def _disturb(self, rng: random.Random) -> None:
        cluster, broker, index = self.cluster, rng.randint(1, BROKERS), rng.randrange(2)
        faults = cluster.faults
        verbs: list[Callable[[], object]] = [
            lambda: cluster.stop_broker(broker),
            lambda: cluster.start_broker(broker),
            lambda: cluster.start_broker(broker),
            lambda: cluster.pause_follower(broker, "t", index),
            lambda: cluster.lag(broker, "t", index, 5),
            lambda: cluster.resume(broker, "t", index),
            lambda: cluster.elect("t", index),
            cluster.pause_elections,
            cluster.resume_elections,
            cluster.resume_elections,
            lambda: cluster.append("t", [b"x" * 100], index),
            lambda: cluster.records("t"),
            lambda: faults.answer("produce", "NOT_LEADER", topic="t", times=3),
            lambda: faults.answer("heartbeat", 27, probability=0.5),
            lambda: faults.delay(ms=rng.randint(0, 20), times=5),
            lambda: faults.delay("produce", ms=5, answer=True, times=5),
            lambda: faults.drop(probability=0.3, times=5),
            lambda: faults.lose(times=5),
            lambda: faults.lose("fetch", hang=True, times=1),
            faults.clear,
            lambda: self._advance(rng.randint(1, 50)),
        ]
        rng.choice(verbs)()

    def _advance(self, ms: int) -> None:
        if self.clock is not None:
            with self._moving:
                self.clock.advance(ms)

    def _ask(self, rng: random.Random) -> None:
        """A client that produces and fetches, and does not wait for long."""
        broker_id = rng.randint(1, BROKERS)
        with connect(self.cluster, broker_id) as wire:
            wire.sock.settimeout(0.05)
            for _ in range(rng.randint(1, 5)):
                wire.send(wire.produce("t", 0, 1, timeout_ms=20))
                wire.receive()
            wire.send(wire.fetch("t", {0: 0, 1: 0}, max_wait_ms=30, min_bytes=1 << 20))
            if rng.random() < 0.5:
                wire.receive()
        broker = self.cluster.broker(broker_id)
        with WireClient(broker.host, broker.port) as client:
            client.sock.settimeout(0.05)
            client.ask("list_groups", 0)

    def _control(self, rng: random.Random) -> None:
        """A control port that comes and goes while somebody calls it."""
        with Control(self.cluster) as control:
            for path in (b"/topics", b"/faults", b"/purgatories/fetch?watched=9&timeout_ms=5"):
                with socket.create_connection((control.host, control.port), timeout=5) as sock:
                    host = f"{control.host}:{control.port}".encode()
                    sock.sendall(b"GET %s HTTP/1.1\r\nHost: %s\r\n\r\n" % (path, host))
                    if rng.random() < 0.8:
                        sock.recv(65536)


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def allocated() -> int:
    for _ in range(3):
        gc.collect()
    return tracemalloc.get_traced_memory()[0]


@pytest.fixture
def traced() -> Iterator[None]:
    log = logging.getLogger("sojourn")
    handlers, log.propagate = list(log.handlers), False
    tracemalloc.start()
    yield
    tracemalloc.stop()
    log.handlers, log.propagate = handlers, True


def noted_errors() -> list[str]:
    """What the package's log has of errors from now on; refusals and bad clients are warnings."""
    lines: list[str] = []

    class Note(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(self.format(record))

    log = logging.getLogger("sojourn")
    log.addHandler(Note(logging.ERROR))
    return lines


def soak(length_s: float, each_s: float) -> None:
    rng = random.Random(seed())
    errors = noted_errors()
    for _ in range(WARM_UP):  # everything is loaded and cached
        Commotion(rng).run(each_s)
    memory = allocated()  # and what earlier tests left is collected
    threads, files = set(threading.enumerate()), descriptors()
    deadline_s = time.monotonic() + length_s
    rounds = calls = 0
    while not rounds or time.monotonic() < deadline_s:
        commotion = Commotion(rng)
        commotion.run(each_s)
        calls += commotion.calls
        rounds += 1
        del commotion
        assert set(threading.enumerate()) <= threads
        assert descriptors() <= files
    assert calls > rounds
    grown = allocated() - memory
    # A few objects of caches; a cluster that stayed would be a thousand times as much.
    assert grown < 1_000_000, f"{grown} bytes are left of {rounds} clusters"
    assert not errors, errors[0]
    logging.getLogger(__name__).info("%d clusters, %d calls, %d bytes", rounds, calls, grown)


def test_two_seconds_of_random_calls_leave_nothing_behind(traced: None) -> None:
    soak(2, 0.15)


@pytest.mark.nightly
def test_ten_minutes_of_random_calls_leave_nothing_behind(traced: None) -> None:
    soak(600, 2)


def test_a_cluster_that_is_closed_says_so_to_everybody() -> None:
    cluster = Cluster(BROKERS)
    cluster.close()
    cluster.close()
    with pytest.raises(Closed):
        cluster.start_broker(1)
    cluster.stop_broker(1)
    for call in (
        lambda: cluster.create_topic("t"),
        lambda: cluster.append("t", [b"x"]),
        cluster.resume_elections,
        lambda: cluster.elect("t", 0),
    ):
        with pytest.raises(Closed):
            call()
    cluster.faults.drop("fetch").remove()
    with Control(cluster) as control:
        assert control.port


def test_a_door_that_is_closed_stays_closed_whoever_opens_it() -> None:
    """A broker that is started while its cluster is closed leaves no socket in the selector."""
    with Cluster() as cluster:
        door = cluster.brokers[0].door
        door.close()
        door.open()
        with pytest.raises(ConnectionError):
            connect(cluster)
