"""Each scripted fault, and what real clients make of it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

pytest.importorskip("kio", reason="kio is not installed: pip install sojourn[kafka]")
pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")

import confluent_kafka

from sojourn import ManualClock
from sojourn.kafka import Cluster
from sojourn.kafka.faults import Faults
from tests.kafka.client_libraries import AIOKAFKA, EACH, KAFKA_PYTHON_WARNS, ClientLibrary, quiet
from tests.until import PATIENCE_S, until

pytestmark = pytest.mark.filterwarnings(KAFKA_PYTHON_WARNS)

FAST = {"retry.backoff.ms": 1, "reconnect.backoff.ms": 1, "reconnect.backoff.max.ms": 10}


def values(cluster: Cluster, topic: str = "orders") -> list[bytes | None]:
    return [record.value for record in cluster.records(topic)]


@pytest.fixture
def orders(kafka_cluster: Cluster) -> Cluster:
    kafka_cluster.create_topic("orders")
    return kafka_cluster


class Producing:
    """A producer of librdkafka's, one record, and what it is reports of it."""

    def __init__(self, cluster: Cluster, **settings: Any) -> None:
        self.reports: list[Any] = []
        self._producer = confluent_kafka.Producer(
            quiet(cluster.bootstrap_servers, **(FAST | settings))
        )
        self._producer.produce("orders", b"one", on_delivery=lambda e, _: self.reports.append(e))

    def flush(self) -> Any:
        assert self._producer.flush(PATIENCE_S) == 0
        return self.reports


@pytest.mark.kafka_cluster(brokers=1)
@pytest.mark.parametrize("client", EACH)
def test_three_refusals_are_retried_and_the_record_is_there_once(
    client: ClientLibrary, orders: Cluster
) -> None:
    fault = orders.faults.answer("Produce", "NOT_LEADER", topic="orders", partition=0, times=3)
    client.or_skip().produce(orders.bootstrap_servers, "orders", [b"one"], "none")
    assert fault.hits == 3
    assert values(orders) == [b"one"]


@pytest.mark.kafka_cluster(brokers=1)
@pytest.mark.parametrize("client", EACH)
def test_a_fetch_that_is_refused_is_retried(client: ClientLibrary, orders: Cluster) -> None:
    orders.append("orders", [b"one", b"two"])
    fault = orders.faults.answer("fetch", "NOT_LEADER_OR_FOLLOWER", topic="orders", times=1)
    assert client.or_skip().consume(orders.bootstrap_servers, "orders", 2) == [b"one", b"two"]
    assert fault.hits == 1


@pytest.mark.kafka_cluster(brokers=1)
def test_an_error_that_no_retry_can_mend_reaches_the_application(orders: Cluster) -> None:
    orders.faults.answer("produce", "TOPIC_AUTHORIZATION_FAILED", topic="orders")
    (error,) = Producing(orders).flush()
    assert error.name() == "TOPIC_AUTHORIZATION_FAILED"
    assert values(orders) == []


@pytest.mark.kafka_cluster(brokers=1)
@pytest.mark.parametrize("client", EACH)
def test_a_dropped_request_is_sent_again_and_the_record_is_there_once(
    client: ClientLibrary, orders: Cluster
) -> None:
    fault = orders.faults.drop("produce", times=1)
    client.or_skip().produce(orders.bootstrap_servers, "orders", [b"one"], "none")
    assert fault.hits == 1
    assert values(orders) == [b"one"]


@pytest.mark.kafka_cluster(brokers=1)
@pytest.mark.parametrize(
    ("is_idempotent", "expected"),
    [pytest.param(False, [b"one"] * 2, id="plain"), pytest.param(True, [b"one"], id="idempotent")],
)
def test_when_an_answer_is_lost_only_an_idempotent_producer_writes_once(
    is_idempotent: bool, expected: list[bytes], orders: Cluster
) -> None:
    fault = orders.faults.lose("produce", topic="orders", times=1)
    assert Producing(orders, **{"enable.idempotence": is_idempotent}).flush() == [None]
    assert fault.hits == 1
    assert values(orders) == expected


@pytest.mark.kafka_cluster(brokers=1)
def test_when_an_answer_is_lost_aiokafka_writes_once_if_it_is_idempotent(orders: Cluster) -> None:
    fault = orders.faults.lose("produce", times=1)
    asyncio.run(produce_with_aiokafka(orders, enable_idempotence=True))
    assert fault.hits == 1
    assert values(orders) == [b"one"]


async def produce_with_aiokafka(cluster: Cluster, **settings: Any) -> None:
    AIOKAFKA.or_skip()
    from aiokafka import AIOKafkaProducer

    producer = AIOKafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers, retry_backoff_ms=1, **settings
    )
    await producer.start()
    try:
        await producer.send_and_wait("orders", b"one")
    finally:
        await producer.stop()


def consumer(cluster: Cluster, client_id: str) -> confluent_kafka.Consumer:
    settings = {"client.id": client_id, "group.id": "none", "fetch.wait.max.ms": 500}
    consumer = confluent_kafka.Consumer(quiet(cluster.bootstrap_servers, **settings))
    consumer.assign([confluent_kafka.TopicPartition("orders", 0, 0)])
    return consumer


@pytest.mark.kafka_cluster(brokers=1)
def test_every_fetch_of_one_client_is_late(orders: Cluster, manual_clock: ManualClock) -> None:
    fault = orders.faults.delay("fetch", ms=800, client_id="billing")
    orders.append("orders", [b"one"])
    billing, other = consumer(orders, "billing"), consumer(orders, "other")
    try:
        message = other.poll(PATIENCE_S)
        assert message is not None
        assert message.value() == b"one"
        orders.wait_until(lambda: fault.hits == 1, PATIENCE_S)
        manual_clock.advance(799)
        assert billing.poll(0.05) is None
        manual_clock.advance(1)
        message = billing.poll(PATIENCE_S)
        assert message is not None
        assert message.value() == b"one"
    finally:
        manual_clock.advance(10_000)
        orders.faults.clear()
        for one in (billing, other):
            one.close()


@pytest.mark.kafka_cluster(brokers=1)
def test_a_late_answer_is_told_when_it_comes(orders: Cluster, manual_clock: ManualClock) -> None:
    fault = orders.faults.delay("produce", ms=15_000, answer=True)
    producing = Producing(orders)
    orders.wait_until(lambda: fault.hits == 1 and values(orders) == [b"one"], PATIENCE_S)
    assert producing.reports == []
    manual_clock.advance(15_000)
    assert producing.flush() == [None]


class AheadLoop(asyncio.SelectorEventLoop):
    """A loop whose clock can be set ahead."""

    ahead_s = 0.0

    def time(self) -> float:
        return super().time() + self.ahead_s


@pytest.mark.kafka_cluster(brokers=1)
def test_an_answer_that_never_comes_is_the_clients_own_timeout(
    orders: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An hour on the client's clock: on a busy machine a short one would end other requests."""
    AIOKAFKA.or_skip()
    fault = orders.faults.lose("produce", hang=True, times=1)

    async def produce_for_an_hour() -> None:
        producing = asyncio.create_task(produce_with_aiokafka(orders, request_timeout_ms=3_600_000))
        await asyncio.to_thread(orders.wait_until, lambda: fault.hits == 1, PATIENCE_S)
        loop.ahead_s = 3_601
        await producing

    with asyncio.Runner(loop_factory=AheadLoop) as runner:
        loop = cast(AheadLoop, runner.get_loop())
        clock = SimpleNamespace(monotonic=loop.time)
        monkeypatch.setattr("aiokafka.producer.message_accumulator.time", clock)
        with pytest.raises(Exception, match=r"KafkaTimeoutError|RequestTimedOut"):
            runner.run(produce_for_an_hour())
    assert fault.hits == 1
    assert values(orders) == [b"one"]  # which the client does not know


@pytest.mark.kafka_cluster(brokers=1)
def test_a_member_that_is_told_of_a_rebalance_joins_again(orders: Cluster) -> None:
    assigned: list[int] = []
    member = confluent_kafka.Consumer(
        quiet(
            orders.bootstrap_servers,
            **{"group.id": "g", "heartbeat.interval.ms": 20, "auto.offset.reset": "earliest"},
        )
    )
    member.subscribe(["orders"], on_assign=lambda *_: assigned.append(1))

    def is_assigned(times: int) -> bool:
        member.poll(0.01)
        return len(assigned) == times

    try:
        until(lambda: is_assigned(1), "the first assignment")
        with orders.faults.answer("heartbeat", "REBALANCE_IN_PROGRESS", times=1) as fault:
            until(lambda: is_assigned(2), "the second assignment")
        assert fault.hits == 1
    finally:
        member.close()


@pytest.mark.kafka_cluster(brokers=1)
def test_a_topic_that_is_refused_is_said_to_the_admin_client(orders: Cluster) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

    orders.faults.answer("CreateTopics", "POLICY_VIOLATION", topic="secret")
    admin = AdminClient(quiet(orders.bootstrap_servers))
    created = admin.create_topics([NewTopic("secret", 1, 1), NewTopic("open", 1, 1)])
    assert created["open"].result(PATIENCE_S) is None
    with pytest.raises(confluent_kafka.KafkaException, match="POLICY_VIOLATION"):
        created["secret"].result(PATIENCE_S)
    assert "secret" not in orders.controller.topics


# The fixture.


@pytest.mark.kafka_cluster(brokers=1)
def test_the_fixture_is_the_faults_of_the_fixtures_cluster(
    kafka_faults: Faults, kafka_cluster: Cluster
) -> None:
    assert kafka_faults is kafka_cluster.faults


def test_a_failing_test_shows_its_faults_with_their_seeds(tmp_path: Path) -> None:
    program = tmp_path / "test_page.py"
    program.write_text(
        "def test_fails(kafka_faults):\n"
        "    kafka_faults.drop('fetch', probability=0.5, seed=42)\n"
        "    assert False\n"
    )
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--rootdir", tmp_path, program],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "<Fault 1: drop api=fetch probability=0.5 seed=42, 0 hits>" in ran.stdout
