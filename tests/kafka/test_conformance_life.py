"""A cluster's life: stopped with its lock held, closed, out of files, and spoken to in TLS."""

from __future__ import annotations

import logging
import resource
import socket
import threading
import time
from collections.abc import Iterator

import pytest

pytest.importorskip("kio", reason="kio is not installed: pip install sojourn[kafka]")

from kio.schema.errors import ErrorCode

from sojourn import ManualClock
from sojourn.errors import Closed, OutOfRange
from sojourn.kafka import Cluster
from sojourn.kafka.network.door import _OUT_OF_FILES_S
from sojourn.kafka.refusal import Refused
from tests.kafka.wire_client import WireClient, connect, only
from tests.until import PATIENCE_S, until


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=2, clock=ManualClock()) as cluster:
        cluster.create_topic("t", replication_factor=2)
        yield cluster


def finishes(thread: threading.Thread) -> bool:
    thread.start()
    thread.join(PATIENCE_S)
    return not thread.is_alive()


def block_the_listener(cluster: Cluster, wire: WireClient, broker_id: int) -> None:
    """Called with the agenda held: have the listener's thread wait for it."""
    wire.send(wire.fetch("t", {0: 0}, max_wait_ms=0))
    door = cluster.broker(broker_id).door
    until(lambda: any(connection._answering for connection in list(door._connections)))


def test_a_broker_is_stopped_by_one_who_holds_the_agenda_under_load(cluster: Cluster) -> None:
    leader = cluster.leader("t", 0)
    with connect(cluster, leader) as wire:

        def stop() -> None:
            with cluster.agenda:
                block_the_listener(cluster, wire, leader)
                cluster.stop_broker(leader)
                cluster.start_broker(leader)
                cluster.stop_broker(leader)

        assert finishes(threading.Thread(target=stop, daemon=True)), "stop_broker hangs"
        assert cluster.broker(leader).door.connections == 0


def test_a_cluster_is_closed_by_one_who_holds_the_agenda_under_load() -> None:
    cluster = Cluster(clock=ManualClock())
    cluster.create_topic("t")
    with connect(cluster) as wire:

        def close() -> None:
            with cluster.agenda:
                block_the_listener(cluster, wire, 1)
                cluster.close()

        assert finishes(threading.Thread(target=close, daemon=True)), "close hangs"


def test_a_broker_of_a_closed_cluster_is_not_started() -> None:
    cluster = Cluster(clock=ManualClock())
    cluster.close()
    raised: list[BaseException] = []

    def start() -> None:
        try:
            cluster.start_broker(1)
        except Closed as error:
            raised.append(error)

    assert finishes(threading.Thread(target=start, daemon=True)), "start_broker hangs"
    assert raised


def test_what_goes_wrong_on_the_listeners_thread_is_told(cluster: Cluster) -> None:
    def wrong() -> None:
        raise OSError("no such luck")

    with pytest.raises(OSError, match="no such luck"):
        cluster._listener.call(wrong)


def test_a_port_that_cannot_be_leaves_no_thread_behind() -> None:
    before = set(threading.enumerate())
    for options in (
        {"port": 70_000},
        {"config": {"advertised.listeners": "nonsense"}},
        {"host": "256.256.256.256"},
    ):
        with pytest.raises((OutOfRange, OSError)):
            Cluster(clock=ManualClock(), **options)
    until(lambda: set(threading.enumerate()) <= before, "no thread more")


def test_a_topic_is_deleted_with_its_records(cluster: Cluster) -> None:
    with connect(cluster, cluster.leader("t", 0)) as wire:
        wire.ask(wire.produce("t"))
        cluster.delete_topic("t")
        gone = only(wire.ask(wire.produce("t")))
        assert gone.error_code is ErrorCode.unknown_topic_or_partition
    with pytest.raises(Refused, match="unknown_topic_or_partition"):
        cluster.delete_topic("t")


def test_without_file_descriptors_the_listener_waits_and_does_not_spin(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    def warnings() -> int:
        return sum("out of file descriptors" in record.message for record in caplog.records)

    broker = cluster.brokers[0]
    late = [socket.socket() for _ in range(3)]  # before there is none left
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with socket.socket() as lowest, caplog.at_level(logging.WARNING, "sojourn"):
        began_s = time.monotonic()
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest.fileno() + 1, hard))
        try:
            for sock in late:
                sock.settimeout(0.2)
                sock.connect((broker.host, broker.port))
            until(warnings, "a warning")
            with pytest.raises(TimeoutError):  # nobody has taken it in
                late[0].recv(1)
            assert warnings() <= 1 + (time.monotonic() - began_s) / _OUT_OF_FILES_S
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    until(lambda: broker.door.connections == len(late))
    for sock in late:
        sock.close()


@pytest.mark.parametrize(
    ("sent", "looks_like"),
    [
        (bytes.fromhex("16030102000100"), "it looks like TLS"),
        (b"GET / HTTP/1.1\r\n\r\n", "it looks like HTTP"),
    ],
)
def test_who_speaks_another_protocol_is_told_in_the_log(
    cluster: Cluster, sent: bytes, looks_like: str, caplog: pytest.LogCaptureFixture
) -> None:
    broker = cluster.brokers[0]
    with (
        caplog.at_level(logging.WARNING, "sojourn"),
        socket.create_connection((broker.host, broker.port), timeout=PATIENCE_S) as other,
    ):
        other.sendall(sent)
        assert other.recv(1) == b""
    assert looks_like in caplog.text


# Where clients are told to go.


def told(cluster: Cluster, host: str = "127.0.0.1") -> list[tuple[str, int]]:
    with WireClient(host, cluster.brokers[0].port) as client:
        found = client.ask("metadata", 1, topics=[]).brokers
    return [(broker.host, broker.port) for broker in found]


def test_clients_are_told_what_is_advertised() -> None:
    config = {"advertised.listeners": "PLAINTEXT://kafka.example:9092"}
    with Cluster(brokers=2, clock=ManualClock(), config=config) as cluster:
        assert told(cluster) == [("kafka.example", 9092), ("kafka.example", 9093)]


def test_clients_of_a_broker_on_every_address_are_told_the_one_they_came_by() -> None:
    with Cluster(host="0.0.0.0", clock=ManualClock()) as cluster:
        port = cluster.brokers[0].port
        assert told(cluster, "127.0.0.1") == [("127.0.0.1", port)]
        assert told(cluster, "127.0.0.2") == [("127.0.0.2", port)]
