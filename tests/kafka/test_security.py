"""TLS and SASL: real clients over each protocol, and what goes wrong with them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import ssl
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

pytest.importorskip("kio", reason="kio is not installed: pip install sojourn[kafka]")

from kio.schema.errors import ErrorCode

from sojourn import ManualClock
from sojourn.errors import OutOfRange, WrongType
from sojourn.kafka import Cluster
from sojourn.kafka.security.sasl import MECHANISMS
from tests.kafka.client_libraries import KAFKA_PYTHON_WARNS, quiet
from tests.kafka.wire_client import WireClient
from tests.until import PATIENCE_S, until

pytestmark = pytest.mark.filterwarnings(KAFKA_PYTHON_WARNS)

PASSWORD = "s3cret, =päss"
FAST = {"reconnect.backoff.ms": 1, "reconnect.backoff.max.ms": 10}


class Way(NamedTuple):
    """A protocol, and a mechanism if it has one."""

    protocol: str
    mechanism: str = ""

    @contextlib.contextmanager
    def cluster(self, **options: Any) -> Iterator[Cluster]:
        if self.protocol.endswith("SSL"):
            pytest.importorskip("trustme", reason="trustme is not installed: sojourn[kafka-tls]")
        users = {"alice": PASSWORD} if self.mechanism else None
        with Cluster(security=self.protocol, users=users, **options) as cluster:
            cluster.create_topic("t")
            yield cluster


WAYS = [
    Way("SSL"),
    *(Way("SASL_PLAINTEXT", mechanism) for mechanism in MECHANISMS),
    Way("SASL_SSL", "PLAIN"),
    Way("SASL_SSL", "SCRAM-SHA-512"),
]
EACH_WAY = [pytest.param(way, id="-".join(filter(None, way))) for way in WAYS]


def librdkafka(cluster: Cluster, way: Way, password: str = PASSWORD, **more: Any) -> dict[str, Any]:
    settings = {"security.protocol": way.protocol, **FAST, **more}
    if way.protocol.endswith("SSL"):
        settings["ssl.ca.location"] = cluster.ca_file
    if way.mechanism:
        settings |= {
            "sasl.mechanism": way.mechanism,
            "sasl.username": "alice",
            "sasl.password": password,
        }
    return quiet(cluster.bootstrap_servers, **settings)


def python_client(cluster: Cluster, way: Way, password: str = PASSWORD) -> dict[str, Any]:
    """Settings of kafka-python and of aiokafka."""
    settings: dict[str, Any] = {
        "bootstrap_servers": cluster.bootstrap_servers,
        "security_protocol": way.protocol,
    }
    if way.protocol.endswith("SSL"):
        settings["ssl_context"] = ssl.create_default_context(cafile=cluster.ca_file)
    if way.mechanism:
        settings |= {
            "sasl_mechanism": way.mechanism,
            "sasl_plain_username": "alice",
            "sasl_plain_password": password,
        }
    return settings


def round_trip_librdkafka(cluster: Cluster, way: Way) -> bytes:
    confluent_kafka = pytest.importorskip("confluent_kafka")
    producer = confluent_kafka.Producer(librdkafka(cluster, way))
    producer.produce("t", b"x" * 300_000)
    assert producer.flush(PATIENCE_S) == 0
    consumer = confluent_kafka.Consumer(librdkafka(cluster, way, **{"group.id": "none"}))
    consumer.assign([confluent_kafka.TopicPartition("t", 0, 0)])
    try:
        return bytes(consumer.poll(PATIENCE_S).value())
    finally:
        consumer.close()


def round_trip_kafka_python(cluster: Cluster, way: Way) -> bytes:
    kafka = pytest.importorskip("kafka")
    producer = kafka.KafkaProducer(**python_client(cluster, way))
    producer.send("t", b"x" * 300_000).get(PATIENCE_S)
    producer.close()
    consumer = kafka.KafkaConsumer("t", auto_offset_reset="earliest", **python_client(cluster, way))
    try:
        return bytes(next(consumer).value)
    finally:
        consumer.close()


def round_trip_aiokafka(cluster: Cluster, way: Way) -> bytes:
    aiokafka = pytest.importorskip("aiokafka")

    async def run() -> bytes:
        producer = aiokafka.AIOKafkaProducer(**python_client(cluster, way))
        await producer.start()
        await producer.send_and_wait("t", b"x" * 300_000)
        await producer.stop()
        consumer = aiokafka.AIOKafkaConsumer(
            "t", auto_offset_reset="earliest", **python_client(cluster, way)
        )
        await consumer.start()
        try:
            return bytes((await asyncio.wait_for(consumer.getone(), PATIENCE_S)).value)
        finally:
            await consumer.stop()

    return asyncio.run(run())


PYTHON_ROUND_TRIPS = [
    pytest.param(round_trip_kafka_python, id="kafka-python"),
    pytest.param(round_trip_aiokafka, id="aiokafka"),
]


@pytest.mark.parametrize("way", EACH_WAY)
def test_a_record_goes_round_by_librdkafka(way: Way) -> None:
    with way.cluster() as cluster:
        assert round_trip_librdkafka(cluster, way) == b"x" * 300_000


@pytest.mark.parametrize("round_trip", PYTHON_ROUND_TRIPS)
@pytest.mark.parametrize("way", [EACH_WAY[n] for n in (0, 1, 2, 5)])
def test_a_record_goes_round(way: Way, round_trip: Callable[[Cluster, Way], bytes]) -> None:
    with way.cluster() as cluster:
        assert round_trip(cluster, way) == b"x" * 300_000


# Wrong passwords.


def failure(settings: dict[str, Any]) -> str:
    """What librdkafka is told when it cannot log in."""
    confluent_kafka = pytest.importorskip("confluent_kafka")
    errors: list[Any] = []
    producer = confluent_kafka.Producer({**settings, "error_cb": errors.append})
    until(lambda: producer.poll(0.01) >= 0 and errors, "an error")
    return f"{errors[0].name()} {errors[0].str()}"


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_wrong_password_is_said_and_logged(
    mechanism: str, caplog: pytest.LogCaptureFixture
) -> None:
    way = Way("SASL_PLAINTEXT", mechanism)
    with way.cluster() as cluster, caplog.at_level(logging.WARNING, "sojourn"):
        error = failure(librdkafka(cluster, way, "wrong"))
        assert "_AUTHENTICATION" in error
        assert "Authentication failed" in error
        assert "is not authenticated, and closed: Authentication failed" in caplog.text


def test_a_scripted_failure_is_a_wrong_password_for_who_has_the_right_one() -> None:
    way = Way("SASL_PLAINTEXT", "SCRAM-SHA-256")
    with way.cluster() as cluster:
        fault = cluster.faults.answer("SaslAuthenticate", "SASL_AUTHENTICATION_FAILED")
        assert "_AUTHENTICATION" in failure(librdkafka(cluster, way))
        assert fault.hits >= 1
        cluster.faults.clear()
        assert round_trip_librdkafka(cluster, way)


def test_a_password_that_was_changed_counts() -> None:
    way = Way("SASL_PLAINTEXT", "SCRAM-SHA-256")
    with way.cluster() as cluster:
        assert round_trip_librdkafka(cluster, way)
        assert cluster.users is not None
        cluster.users["alice"] = "other"
        assert "_AUTHENTICATION" in failure(librdkafka(cluster, way))
        del cluster.users["alice"]
        assert "_AUTHENTICATION" in failure(librdkafka(cluster, way, "other"))


def test_a_mechanism_that_is_not_enabled_is_refused() -> None:
    way = Way("SASL_PLAINTEXT", "PLAIN")
    with way.cluster(config={"sasl.enabled.mechanisms": "SCRAM-SHA-512"}) as cluster:
        assert "_AUTHENTICATION" in failure(librdkafka(cluster, way))


# Certificates.


@pytest.mark.parametrize(
    ("flaw", "reason"),
    [
        ("expired", "expired"),
        ("not_yet_valid", "not yet valid"),
        ("untrusted", "unable to get local issuer|self.signed|unknown ca"),
        ("wrong_host", "mismatch|match"),
    ],
)
def test_a_client_does_not_take_a_bad_certificate(
    flaw: str, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    with Way("SSL").cluster() as cluster, caplog.at_level(logging.WARNING, "sojourn"):
        broker = cluster.brokers[0]
        context = ssl.create_default_context(cafile=cluster.ca_file)
        with cluster.faults.certificate(flaw, times=1) as fault:
            with (
                socket.create_connection((broker.host, broker.port), timeout=PATIENCE_S) as sock,
                pytest.raises(ssl.SSLCertVerificationError, match=reason),
            ):
                context.wrap_socket(sock, server_hostname=broker.host)
            assert fault.hits == 1
        until(lambda: "does not accept the certificate" in caplog.text)
        with (
            socket.create_connection((broker.host, broker.port), timeout=PATIENCE_S) as sock,
            context.wrap_socket(sock, server_hostname=broker.host) as good,
        ):
            assert good.version() in ("TLSv1.2", "TLSv1.3")


def test_librdkafka_says_that_the_certificate_is_bad_and_gets_through_later() -> None:
    way = Way("SSL")
    with way.cluster() as cluster:
        with cluster.faults.certificate("expired"):
            assert "certificate verify failed" in failure(librdkafka(cluster, way))
        assert round_trip_librdkafka(cluster, way)


def test_certificates_are_gone_with_the_cluster() -> None:
    with Way("SSL").cluster() as cluster:
        ca_file = cluster.ca_file
        assert os.path.exists(ca_file)
    assert not os.path.exists(ca_file)


def test_a_client_that_goes_takes_its_request_with_it_over_tls_too() -> None:
    with Way("SSL").cluster(clock=ManualClock()) as cluster:
        fault = cluster.faults.delay(ms=60_000)
        broker = cluster.brokers[0]
        before = len(cluster.timer)
        context = ssl.create_default_context(cafile=cluster.ca_file)
        with WireClient(broker.host, broker.port) as client:
            client.sock = context.wrap_socket(client.sock, server_hostname=broker.host)
            client.send("list_groups", 0)
            cluster.wait_until(lambda: fault.hits == 1, PATIENCE_S)
            assert len(cluster.timer) == before + 1
        until(lambda: len(cluster.timer) == before)


# The wrong protocol.


def test_a_client_without_tls_is_told_apart_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with Way("SSL").cluster() as cluster, caplog.at_level(logging.WARNING, "sojourn"):
        broker = cluster.brokers[0]
        with (
            WireClient(broker.host, broker.port) as client,
            pytest.raises((ConnectionError, AssertionError, KeyError, IndexError)),
        ):
            client.ask("api_versions", 0)
        until(lambda: "looks like a client without TLS" in caplog.text)


def test_a_client_without_sasl_is_told_what_to_use(caplog: pytest.LogCaptureFixture) -> None:
    way = Way("SASL_PLAINTEXT", "PLAIN")
    with way.cluster() as cluster, caplog.at_level(logging.WARNING, "sojourn"):
        broker = cluster.brokers[0]
        with WireClient(broker.host, broker.port) as client:
            assert client.ask("api_versions", 0).error_code is ErrorCode.none
            with pytest.raises(ConnectionError):
                client.ask("list_groups", 0)
        assert "use security.protocol=SASL_PLAINTEXT and a sasl.mechanism of PLAIN" in caplog.text


def test_a_client_with_sasl_is_told_on_a_plain_port(caplog: pytest.LogCaptureFixture) -> None:
    with Cluster() as cluster, caplog.at_level(logging.WARNING, "sojourn"):
        error = failure(librdkafka(cluster, Way("SASL_PLAINTEXT", "PLAIN")))
        assert "_AUTHENTICATION" in error
        assert "use security.protocol=PLAINTEXT" in caplog.text


# By hand: what Kafka answers.


@contextlib.contextmanager
def sasl(**config: Any) -> Iterator[tuple[Cluster, WireClient]]:
    way = Way("SASL_PLAINTEXT", "PLAIN")
    with way.cluster(clock=ManualClock(), config=config) as cluster:
        assert cluster.users is not None
        cluster.users["bob"] = "b"
        broker = cluster.brokers[0]
        with WireClient(broker.host, broker.port) as client:
            yield cluster, client


def log_in(client: WireClient, token: bytes = b"\0bob\0b", mechanism: str = "PLAIN") -> Any:
    answer = client.ask("sasl_handshake", 1, mechanism=mechanism)
    assert answer.error_code is ErrorCode.none
    assert answer.mechanisms == MECHANISMS
    return client.ask("sasl_authenticate", 2, auth_bytes=token)


def test_a_session_is_without_end_unless_it_is_bounded() -> None:
    with sasl() as (cluster, client):
        assert log_in(client).session_lifetime.total_seconds() == 0
        cluster.clock.advance(10**7)
        assert client.ask("list_groups", 0).error_code is ErrorCode.none
        # Both are out of order now, and the connection goes on.
        answer = client.ask("sasl_handshake", 1, mechanism="PLAIN")
        assert (answer.error_code, answer.mechanisms) == (ErrorCode.illegal_sasl_state, ())
        answer = client.ask("sasl_authenticate", 2, auth_bytes=b"\0bob\0b")
        assert answer.error_code is ErrorCode.illegal_sasl_state
        assert client.ask("list_groups", 0).error_code is ErrorCode.none


def test_a_session_ends_on_the_clusters_clock() -> None:
    with sasl(**{"connections.max.reauth.ms": 60_000}) as (cluster, client):
        assert log_in(client).session_lifetime.total_seconds() == 60
        cluster.clock.advance(60_000)
        assert client.ask("list_groups", 0).error_code is ErrorCode.none
        cluster.clock.advance(1)
        client.send("list_groups", 0)
        assert client.is_closed


def test_a_session_goes_on_if_the_client_logs_in_again() -> None:
    with sasl(**{"connections.max.reauth.ms": 60_000}) as (cluster, client):
        log_in(client)
        cluster.clock.advance(50_000)
        assert log_in(client).session_lifetime.total_seconds() == 60
        cluster.clock.advance(50_000)
        assert client.ask("list_groups", 0).error_code is ErrorCode.none


@pytest.mark.parametrize(
    ("token", "reason"),
    [
        (
            b"\0alice\0" + PASSWORD.encode(),
            "Cannot change principals during re-authentication from User.bob: User.alice",
        ),
        (b"\0bob\0wrong", "Authentication failed: Invalid username or password"),
    ],
    ids=["another user", "wrong password"],
)
def test_logging_in_again_as_another_fails(token: bytes, reason: str) -> None:
    with sasl(**{"connections.max.reauth.ms": 60_000}) as (cluster, client):
        log_in(client)
        cluster.clock.advance(50_000)
        answer = log_in(client, token)
        assert answer.error_code is ErrorCode.sasl_authentication_failed
        assert answer.error_message == reason
        assert client.is_closed


def test_logging_in_again_by_another_mechanism_ends_the_connection() -> None:
    with sasl(**{"connections.max.reauth.ms": 60_000}) as (_, client):
        log_in(client)
        with pytest.raises(ConnectionError):
            log_in(client, b"n,,n=bob,r=x", "SCRAM-SHA-256")


def test_logging_in_again_and_again_within_a_second_is_out_of_order() -> None:
    with sasl(**{"connections.max.reauth.ms": 60_000}) as (cluster, client):
        for _ in range(2):
            assert log_in(client).error_code is ErrorCode.none
        answer = client.ask("sasl_handshake", 1, mechanism="PLAIN")
        assert answer.error_code is ErrorCode.illegal_sasl_state
        cluster.clock.advance(1_000)
        assert log_in(client).error_code is ErrorCode.none


@pytest.mark.parametrize(
    ("mechanism", "token", "reason"),
    [
        ("PLAIN", b"", "due to invalid credentials with SASL mechanism PLAIN"),
        ("PLAIN", b"\0bob", "due to invalid credentials with SASL mechanism PLAIN"),
        ("PLAIN", b"\0bob\0", "due to invalid credentials with SASL mechanism PLAIN"),
        ("PLAIN", b"\0nobody\0b", "Invalid username or password"),
        ("PLAIN", b"\xff\0\xff\0\xff", "Invalid username or password"),
        ("PLAIN", b"alice\0bob\0b", "authorization id that is different from username"),
        ("SCRAM-SHA-256", b"n,,n=nobody,r=x", "with SASL mechanism SCRAM-SHA-256"),
        ("SCRAM-SHA-256", b"n,a=alice,n=bob,r=x", "authorization id that is different"),
        ("SCRAM-SHA-256", b"y,,n=bob,r=x", "with SASL mechanism SCRAM-SHA-256"),
        ("SCRAM-SHA-512", b"n,,n=bob", "with SASL mechanism SCRAM-SHA-512"),
        ("SCRAM-SHA-512", b"\xff\xff", "with SASL mechanism SCRAM-SHA-512"),
        ("SCRAM-SHA-512", b"", "with SASL mechanism SCRAM-SHA-512"),
    ],
    ids=range(12),
)
def test_a_token_that_proves_nothing_is_refused(mechanism: str, token: bytes, reason: str) -> None:
    with sasl() as (_, client):
        answer = log_in(client, token, mechanism)
        assert answer.error_code is ErrorCode.sasl_authentication_failed
        assert reason in answer.error_message
        assert client.is_closed


@pytest.mark.parametrize(
    "token",
    [
        b"",
        b"p=",
        b"c=biws,r=other,p=AA==",
        b"c=biws,NONCE",
        b"c=biws,NONCE,p=AA==",
        b"c=,NONCE,p=%",
    ],
    ids=range(6),
)
def test_a_proof_that_proves_nothing_is_refused(token: bytes) -> None:
    with sasl() as (_, client):
        first = log_in(client, b"n,,n=bob,r=x", "SCRAM-SHA-256").auth_bytes
        token = token.replace(b"NONCE", first.split(b",")[0])
        answer = client.ask("sasl_authenticate", 2, auth_bytes=token)
        assert answer.error_code is ErrorCode.sasl_authentication_failed
        assert client.is_closed


def test_a_request_in_the_middle_of_it_is_answered_with_its_state() -> None:
    with sasl() as (_, client):
        client.ask("sasl_handshake", 1, mechanism="PLAIN")
        assert client.ask("list_groups", 0).error_code is ErrorCode.illegal_sasl_state
        assert client.is_closed


def test_tokens_come_as_they_are_after_a_handshake_of_version_0() -> None:
    with sasl() as (_, client):
        client.ask("sasl_handshake", 0, mechanism="PLAIN")
        token = b"\0bob\0b"
        client.sock.sendall(len(token).to_bytes(4, "big") + token)
        assert client.read(4) == bytes(4)
        assert client.ask("list_groups", 0).error_code is ErrorCode.none
    with sasl() as (_, client):
        client.ask("sasl_handshake", 0, mechanism="PLAIN")
        client.sock.sendall(b"\0\0\0\1x")
        assert client.is_closed


# What cannot be.


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"security": "TLS"}, "security must be one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        ({"security": "SASL_SSL"}, "SASL_SSL needs users"),
        ({"users": {"a": "b"}}, "PLAINTEXT has no users"),
        ({"security": "SASL_PLAINTEXT", "users": {"a": ""}}, "must not be empty"),
        ({"security": "SASL_PLAINTEXT", "users": {"a": 5}}, "a name and a password"),
        ({"security": "SASL_PLAINTEXT", "users": 5}, "must map names to passwords"),
        (
            {
                "security": "SASL_PLAINTEXT",
                "users": {"a": "b"},
                "config": {"sasl.enabled.mechanisms": "GSSAPI"},
            },
            "can be PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 here, got GSSAPI",
        ),
        (
            {"config": {"advertised.listeners": "SSL://a:1"}},
            "advertised.listeners must be PLAINTEXT://HOST:PORT",
        ),
    ],
    ids=range(8),
)
def test_what_cannot_be_is_said(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises((OutOfRange, WrongType), match=complaint):
        Cluster(**options)


def test_without_tls_there_are_no_certificates() -> None:
    with Cluster() as cluster:
        with pytest.raises(OutOfRange, match="no certificates without TLS"):
            cluster.faults.certificate("expired")
        with pytest.raises(OutOfRange, match="no certificates without TLS"):
            _ = cluster.ca_file


def test_a_flaw_that_nobody_knows_is_refused() -> None:
    with (
        Way("SSL").cluster() as cluster,
        pytest.raises(OutOfRange, match="a certificate can be expired, not_yet_valid"),
    ):
        cluster.faults.certificate("ugly")
