"""What no client should send: that connection is answered or closed, and the rest goes on."""

from __future__ import annotations

import random
import socket
import struct
import tracemalloc
from collections.abc import Iterator

import pytest

from tests.seeds import seed

pytest.importorskip("kio", reason="kio is not installed: pip install sojourn[kafka]")

from kio.schema.errors import ErrorCode

from sojourn import ManualClock
from sojourn.kafka import Cluster, wire
from tests.kafka.batches import batch
from tests.kafka.wire_client import WireClient, connect, only
from tests.until import PATIENCE_S, until

pytestmark = pytest.mark.usefixtures("quiet_log")


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(clock=ManualClock()) as cluster:
        cluster.create_topic("t")
        yield cluster


@pytest.fixture
def bystander(cluster: Cluster) -> Iterator[WireClient]:
    """Somebody who does nothing wrong, and must not notice."""
    with connect(cluster) as bystander:
        yield bystander
        assert only(bystander.ask(bystander.produce("t"))).error_code is ErrorCode.none


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def header(key: int, version: int, correlation: int = 7) -> bytes:
    return struct.pack(">hhih", key, version, correlation, -1)


def test_a_frame_in_single_bytes_is_a_frame(cluster: Cluster, bystander: WireClient) -> None:
    with connect(cluster) as torn:
        for byte in framed(header(18, 0)):
            torn.sock.sendall(bytes([byte]))
        size = struct.unpack(">i", torn.read(4))[0]
        assert torn.read(size)[:6] == struct.pack(">ih", 7, 0)


def test_frames_of_any_size_may_follow_each_other_in_one_piece(
    cluster: Cluster, bystander: WireClient
) -> None:
    sizes = [10, 70_000, 10, 200_000, 65_535, 65_536, 1_048_000, 500, 66_000, 10]
    values = [bytes([n]) * size for n, size in enumerate(sizes)]
    with connect(cluster) as eager:
        requests = [eager.produce("t", records=batch(value)) for value in values]
        eager.sock.sendall(b"".join(map(eager.frame, requests)))
        assert [only(eager.receive()).base_offset for _ in values] == list(range(len(values)))
    assert [record.value for record in cluster.records("t")] == values


def test_a_frame_torn_off_in_the_middle_is_forgotten(
    cluster: Cluster, bystander: WireClient
) -> None:
    door = cluster.brokers[0].door
    with connect(cluster) as torn:
        torn.sock.sendall(framed(header(18, 0))[:9])
        until(lambda: door.connections == 2)
    until(lambda: door.connections == 1)


@pytest.mark.parametrize("size", [-1, -(2**31), 2**31 - 1, 100 * 1024 * 1024 + 1])
def test_a_length_that_cannot_be_closes_the_connection(
    cluster: Cluster, bystander: WireClient, size: int
) -> None:
    with connect(cluster) as oversized:
        oversized.sock.sendall(struct.pack(">i", size) + bytes(100))
        assert oversized.is_closed


def test_a_length_is_not_believed_until_the_bytes_come(
    cluster: Cluster, bystander: WireClient
) -> None:
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        wires = [connect(cluster) for _ in range(20)]
        for one in wires:
            one.sock.sendall(struct.pack(">i", 90_000_000) + bytes(10))
        until(lambda: cluster.brokers[0].door.connections == 21)
        assert tracemalloc.get_traced_memory()[1] - before < 20_000_000
        for one in wires:
            one.sock.close()
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("key", [-1, 4, 17, 66, 999])
def test_an_unknown_api_closes_the_connection(
    cluster: Cluster, bystander: WireClient, key: int
) -> None:
    with connect(cluster) as unknown:
        unknown.sock.sendall(framed(header(key, 0)))
        assert unknown.is_closed


@pytest.mark.parametrize(("key", "version"), [(0, 2), (0, 99), (3, -1), (1, 3), (19, 1)])
def test_an_unknown_version_closes_the_connection(
    cluster: Cluster, bystander: WireClient, key: int, version: int
) -> None:
    with connect(cluster) as unknown:
        unknown.sock.sendall(framed(header(key, version)))
        assert unknown.is_closed


def test_an_unknown_version_of_api_versions_gets_the_first_ones_answer(
    cluster: Cluster, bystander: WireClient
) -> None:
    with connect(cluster) as modern:
        modern.sock.sendall(framed(header(18, 77) + b"\0\3abc\3def\0"))
        size = struct.unpack(">i", modern.read(4))[0]
        answer = modern.read(size)
        correlation, error = struct.unpack(">ih", answer[:6])
        assert (correlation, error) == (7, 35)
        # And it may go on, with a version that we know.
        modern.sock.sendall(framed(header(18, 0)))
        assert modern.read(4)


def test_what_is_advertised_is_what_is_served(cluster: Cluster, bystander: WireClient) -> None:
    with connect(cluster) as curious:
        answer = curious.ask(
            "api_versions", 3, client_software_name="test", client_software_version="1"
        )
    said = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
    assert said.pop(0) == (0, 11)  # see metadata.py
    for name in cluster.brokers[0].handlers:
        if name != "produce":
            assert said.pop(wire.API_KEYS[name]) == wire.VERSIONS[name]
    assert not said


def test_garbage_closes_its_connection_only(cluster: Cluster, bystander: WireClient) -> None:
    rng = random.Random(seed())
    for _ in range(100):
        with connect(cluster) as noise:
            noise.sock.sendall(rng.randbytes(rng.randrange(1, 200)))
            noise.sock.shutdown(socket.SHUT_WR)
            while noise.sock.recv(4096):  # whatever it made of that; but it ends
                pass


@pytest.mark.parametrize("name", sorted(wire.VERSIONS))
def test_a_request_cut_short_or_garbled_is_survived(
    cluster: Cluster, bystander: WireClient, name: str
) -> None:
    """Valid headers, and bodies that are random, of every API in every version."""
    rng = random.Random(seed())
    low, high = wire.VERSIONS[name]
    for version in range(low, high + 1):
        for size in (0, 1, 4, 17, 60):
            body = header(wire.API_KEYS[name], version) + rng.randbytes(size)
            with connect(cluster) as garbled:
                garbled.sock.sendall(framed(body))
                garbled.sock.shutdown(socket.SHUT_WR)
                try:
                    while garbled.sock.recv(65536):
                        pass
                except TimeoutError:
                    pytest.fail(f"{name} version {version}: neither answer nor end")
                except ConnectionError:
                    pass


def test_many_requests_at_once_are_answered_in_order(
    cluster: Cluster, bystander: WireClient
) -> None:
    with connect(cluster) as eager:
        for _ in range(50):
            eager.send(eager.produce("t"))
        assert [only(eager.receive()).base_offset for _ in range(50)] == list(range(50))


def test_a_request_that_waits_holds_up_those_behind_it(
    cluster: Cluster, bystander: WireClient
) -> None:
    with connect(cluster) as eager:
        eager.send(eager.fetch("t", {0: 0}, max_wait_ms=1_000))
        eager.send(eager.produce("t"))
        cluster.wait_until(lambda: cluster.purgatories.fetch.watched == 1, PATIENCE_S)
        assert cluster.partition("t", 0).end_offset == 0
        cluster.clock.advance(1_000)
        assert only(eager.receive()).records == b""
        assert only(eager.receive()).base_offset == 0


# Records.


def refused(wire: WireClient, records: bytes) -> ErrorCode:
    result = only(wire.ask(wire.produce("t", records=records)))
    assert result.base_offset == -1
    assert result.error_message
    code: ErrorCode = result.error_code
    return code


def test_bad_records_are_refused_and_not_appended(cluster: Cluster, bystander: WireClient) -> None:
    good = batch(b"value")
    wrong_crc = bytearray(good)
    wrong_crc[-1] ^= 1
    old_format = bytearray(good)
    old_format[16] = 1
    short_length = bytearray(good)
    short_length[8:12] = struct.pack(">i", 10)
    long_length = bytearray(good)
    long_length[8:12] = struct.pack(">i", 2**31 - 1)
    for records, code in (
        (bytes(wrong_crc), ErrorCode.corrupt_message),
        (bytes(old_format), ErrorCode.invalid_record),
        (bytes(short_length), ErrorCode.corrupt_message),
        (bytes(long_length), ErrorCode.invalid_record),
        (good[:-1], ErrorCode.invalid_record),
        (good[:40], ErrorCode.invalid_record),
        (b"", ErrorCode.invalid_record),
        (good + good, ErrorCode.invalid_record),
        (batch(), ErrorCode.invalid_record),
        (batch(b"x", attributes=0x20), ErrorCode.invalid_record),
        (batch(b"x", attributes=0x10), ErrorCode.transactional_id_authorization_failed),
        (batch(b"x", producer_id=5), ErrorCode.invalid_record),
        (batch(bytes(1_100_000)), ErrorCode.message_too_large),
    ):
        assert refused(bystander, records) is code
    assert cluster.partition("t", 0).end_offset == 0


def test_random_records_are_refused(cluster: Cluster, bystander: WireClient) -> None:
    rng = random.Random(3)
    good = batch(b"value")
    for _ in range(200):
        bad = bytearray(good)
        at = rng.randrange(16, len(bad))  # before that is the broker's to write
        bad[at] ^= rng.randrange(1, 256)
        assert refused(bystander, bytes(bad)) in (
            ErrorCode.corrupt_message,
            ErrorCode.invalid_record,
            ErrorCode.transactional_id_authorization_failed,
        )


def test_acks_that_there_are_not_are_refused(cluster: Cluster, bystander: WireClient) -> None:
    result = only(bystander.ask(bystander.produce("t", acks=2)))
    assert result.error_code is ErrorCode.invalid_required_acks
    unknown = only(bystander.ask(bystander.produce("nowhere")))
    assert unknown.error_code is ErrorCode.unknown_topic_or_partition
    beyond = only(bystander.ask(bystander.produce("t", 9)))
    assert beyond.error_code is ErrorCode.unknown_topic_or_partition


def test_a_wrong_produce_without_acks_closes_the_connection(
    cluster: Cluster, bystander: WireClient
) -> None:
    with connect(cluster) as wrong:
        wrong.send(wrong.produce("nowhere", acks=0))
        assert wrong.is_closed


# A client that does not read.


def test_a_client_that_stops_reading_costs_one_answer(
    cluster: Cluster, bystander: WireClient
) -> None:
    for _ in range(20):
        bystander.ask(bystander.produce("t", records=batch(bytes(1_000_000))))
    deaf = connect(cluster)
    deaf.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    request = deaf.fetch("t", {0: 0}, partition_max_bytes=8_000_000)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        deaf.sock.settimeout(0.2)
        with pytest.raises(TimeoutError):  # in the end it may not even send any more
            deaf.sock.sendall(deaf.frame(request) * 200_000)
        for _ in range(20):  # the others are served meanwhile
            bystander.ask(bystander.produce("t"))
        assert tracemalloc.get_traced_memory()[0] - before < 30_000_000
    finally:
        tracemalloc.stop()
        deaf.sock.close()
    until(lambda: cluster.brokers[0].door.connections == 1)


def test_connections_that_come_and_go_leave_nothing(
    cluster: Cluster, bystander: WireClient
) -> None:
    request = bystander.frame(bystander.produce("t"))
    for _ in range(5):
        wires = [connect(cluster) for _ in range(50)]
        for one in wires:
            one.sock.sendall(request)
        for one in wires:
            one.sock.close()
    until(lambda: cluster.brokers[0].door.connections == 1)
