"""`sojourn stream` between topics of our cluster: the Java client at work, killed, and exact."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.checkout import ROOT
from tests.rows.traces import random_trace
from tests.seeds import seed
from tests.spark.driver_process import Driver
from tests.spark.stream_traces import arrivals
from tests.spark.test_stream_kill import last
from tests.test_one_answer import answer_of_tables, differs
from tests.until import until

pytest.importorskip("kio", reason="kio is not installed: pip install sojourn[kafka]")
pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
pytest.importorskip("pyspark", reason="pyspark is not installed: pip install sojourn[spark]")

import confluent_kafka as confluent
import pyspark

from sojourn import replay
from sojourn.kafka import Cluster

PATIENCE_S = 240
TOPICS = ("operations", "signals", "cancels")
CHUNKS, SPAN_MS = 6, 20_000
# Longer than three chunks, the most that are sent without waiting until they are read: a batch may
# read them from one partition and not from the other.
DELAY_MS = 11_000


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3) as cluster:
        for topic in (*TOPICS, "outcomes"):
            cluster.create_topic(topic, partitions=2, replication_factor=3)
        yield cluster


# Spark's Kafka connector, a part a line. Its version is to be Spark's own; Maven Central may be
# behind PyPI, and then the latest one that is there will do.
PARTS = [
    ["org.apache.spark:spark-sql-kafka-0-10_2.13:" + v for v in (pyspark.__version__, "4.2.0")],
    [
        "org.apache.spark:spark-token-provider-kafka-0-10_2.13:" + v
        for v in (pyspark.__version__, "4.2.0", "4.0.0")
    ],
    ["org.apache.kafka:kafka-clients:3.9.2"],
    ["org.apache.commons:commons-pool2:2.13.1"],
]
COPY = (
    "<build><plugins><plugin><groupId>org.apache.maven.plugins</groupId>"
    "<artifactId>maven-dependency-plugin</artifactId><version>3.6.1</version>"
    "<executions><execution><phase>validate</phase><goals><goal>copy</goal></goals></execution>"
    "</executions></plugin></plugins></build>"
)
JARS = ROOT / "build" / "connector"  # kept from run to run


@pytest.fixture(scope="session")
def connector(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The jars of the connector, fetched by Maven where they are not there yet."""
    if not all(map(jar_of, PARTS)):
        fetch([name for part in PARTS for name in part], tmp_path_factory.mktemp("maven"))
    jars = []
    for part in PARTS:
        if (jar := jar_of(part)) is None:
            pytest.skip(f"Maven Central does not give {part[-1]}")
        jars.append(str(jar))
    return jars


def jar_of(part: list[str]) -> Path | None:
    """The jar of the first of these versions that is there."""
    names = ("{1}-{2}.jar".format(*name.split(":")) for name in part)
    return next((JARS / name for name in names if (JARS / name).exists()), None)


def fetch(names: list[str], folder: Path) -> None:
    """Fetch those that Maven Central has: a project of one module for each, so it starts once."""
    if shutil.which("mvn") is None:
        pytest.skip("Spark's Kafka connector is fetched with mvn, which is not installed")
    modules = [folder / f"m{n}" for n in range(len(names))]
    listed = "".join(f"<module>{module.name}</module>" for module in modules)
    write_pom(folder, f"<modules>{listed}</modules>")
    for module, name in zip(modules, names, strict=True):
        module.mkdir()
        write_pom(module, f"<properties><artifact>{name}</artifact></properties>{COPY}")
    command = ["mvn", "-q", "-B", "--fail-at-end", "validate", f"-DoutputDirectory={JARS}"]
    subprocess.run(command, cwd=folder, capture_output=True, timeout=600, check=False)


def write_pom(folder: Path, contents: str) -> None:
    (folder / "pom.xml").write_text(
        "<project><modelVersion>4.0.0</modelVersion><packaging>pom</packaging>"
        f"<groupId>sojourn</groupId><artifactId>{folder.name}</artifactId><version>1</version>"
        f"{contents}</project>"
    )


class Stream:
    """`sojourn stream` from topics to a topic, started as often as it takes."""

    def __init__(self, cluster: Cluster, jars: list[str], folder: Path) -> None:
        self._folder = folder
        self._log = folder / "log"
        self._command = [
            *(sys.executable, "-m", "sojourn", "stream", "--format", "kafka"),
            *("--bootstrap-servers", cluster.bootstrap_servers),
            *(word for topic in TOPICS for word in (f"--{topic}", topic)),
            *("--extras", "kind string, weight long", "--out-topic", "outcomes"),
            *("--checkpoint", str(folder / "checkpoint"), "--delay", f"{DELAY_MS}ms"),
            # A batch may also read a chunk from one topic only: the other topics are not late then.
            *("--idle", "event", "--follow", "slowest", "--shards", "3", "--trigger", "0 seconds"),
            *("--master", "local[2]", "--conf", f"spark.jars={','.join(jars)}"),
        ]
        self.driver = self.start()

    def start(self) -> Driver:
        self.driver = Driver(self._command, self._log)
        return self.driver

    def until_sent(self, cluster: Cluster, count: int) -> None:
        """Wait until so many messages are in the topic."""
        self._until(lambda: ends(cluster) >= count, f"{count} messages")

    def until_read(self, cluster: Cluster) -> None:
        """Wait until a batch is done that read to the end of all topics: it sends no more."""
        self._until(lambda: self._read(last(self._folder, "commits")) == sizes(cluster), "the end")

    def _until(self, condition: Callable[[], bool], what: str) -> None:
        def holds() -> bool:
            if self.driver.was_too_slow():
                self.start()
            assert self.driver.runs(), self.said()[-5000:]
            return condition()

        until(holds, lambda: f"{what}: {self.said()[-3000:]}", PATIENCE_S)

    def _read(self, batch: int) -> dict[str, dict[str, int]]:
        """Where in the partitions of its topics a batch ended, as the checkpoint has it."""
        if batch < 0:
            return {}
        log = (self._folder / "checkpoint" / "offsets" / str(batch)).read_text()
        return dict(pair for line in log.splitlines()[2:] for pair in json.loads(line).items())

    def said(self) -> str:
        return self._log.read_text()


def ends(cluster: Cluster) -> int:
    """How many messages the topic of outcomes has."""
    return sum(cluster.partition("outcomes", n).high_watermark for n in range(2))


def sizes(cluster: Cluster) -> dict[str, dict[str, int]]:
    """How many messages the partitions of the topics have that are read."""
    return {
        topic: {str(n): cluster.partition(topic, n).high_watermark for n in range(2)}
        for topic in TOPICS
    }


def send(cluster: Cluster, chunk: dict[str, pa.Table], partition: int = -1) -> None:
    """Send the rows of each table to its topic, to any of its partitions or to this one."""
    producer = confluent.Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"})
    for topic, table in chunk.items():
        for row in table.to_pylist():
            producer.produce(topic, json.dumps(row).encode(), partition=partition)
    assert producer.flush(PATIENCE_S) == 0


def half(chunk: dict[str, pa.Table], number: int) -> dict[str, pa.Table]:
    """Every second row of each table, from row 0 or row 1 on."""
    return {
        topic: table.take(list(range(number, table.num_rows, 2))) for topic, table in chunk.items()
    }


def read(cluster: Cluster, count: int) -> list[dict[str, Any]]:
    """All messages of the topic of outcomes, as a user reads them."""
    consumer = confluent.Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "reader"}
    )
    partitions = consumer.list_topics("outcomes", PATIENCE_S).topics["outcomes"].partitions
    consumer.assign([confluent.TopicPartition("outcomes", n, 0) for n in partitions])
    found: list[dict[str, Any]] = []
    while len(found) < count:
        messages = consumer.consume(count - len(found), PATIENCE_S)
        assert messages, f"{len(found)} of {count}"
        for message in messages:
            key, row = message.key(), json.loads(message.value() or b"")
            assert row.get("id") == (None if key is None else key.decode())
            found.append(row)
    consumer.close()
    return found


@pytest.mark.usefixtures("java")
def test_topics_to_a_topic_exact_and_killed_on_the_way(
    cluster: Cluster, connector: list[str], tmp_path: Path
) -> None:
    rng = random.Random(seed())
    trace = random_trace(
        seed(), 2500, span_ms=SPAN_MS, extremes=False, ties_by_arrival=False, until=False
    )
    resolved = replay.resolve(*trace.tables())
    expected = answer_of_tables(resolved.outcomes, pa.table({}), resolved.rejected)
    stream = Stream(cluster, connector, tmp_path)
    chunks = arrivals(trace, CHUNKS, 190, seed())
    for number, chunk in enumerate(chunks):
        sent_before = ends(cluster)
        if number == CHUNKS // 4:
            for partition in range(2):
                send(cluster, half(chunk, partition), partition)
                stream.until_read(cluster)
            continue
        send(cluster, chunk)
        if number == CHUNKS // 2:
            stream.until_sent(cluster, sent_before + 1)
            time.sleep(rng.uniform(0, 2))  # what is cut short is left to chance
            stream.driver.kill()
            stream.start()
        elif number in (CHUNKS // 2 - 1, CHUNKS * 3 // 4, CHUNKS - 1):
            # Spark asks the brokers one after the other how far their partitions go: of what is
            # sent meanwhile it can have the last row, which is later than all, and not the others.
            stream.until_read(cluster)
    stream.until_sent(cluster, len(expected.outcomes) + len(expected.rejected))
    stream.until_read(cluster)  # so that whatever is sent beyond that is found out
    stream.driver.interrupt()
    assert stream.driver.end(PATIENCE_S) == 130, stream.said()[-5000:]
    found = read(cluster, ends(cluster))
    ended = [row for row in found if row["status"] != "rejected"]
    told = [row for row in found if row["status"] == "rejected"]
    columns = pa.schema(f for f in resolved.outcomes.schema if f.name != "condition_ms")
    answer = answer_of_tables(
        pa.Table.from_pylist(ended, columns),
        pa.table({}),
        pa.Table.from_pylist(told, resolved.rejected.schema),
    )
    assert differs(trace, expected, answer, tells_condition=False) is None
    assert len(answer.outcomes) == len(expected.outcomes)


@pytest.mark.usefixtures("java")
def test_a_batch_that_runs_again_sends_nothing_twice(
    cluster: Cluster, connector: list[str], tmp_path: Path
) -> None:
    waits: list[dict[str, Any]] = [
        {
            "id": f"o{n}",
            "submitted_ms": n,
            "timeout_ms": 100,
            "requires": [{"key": f"k{n}", "offset": 1}],
        }
        for n in range(1_000)
    ]
    comes = [{"key": f"k{n}", "offset": 1, "at_ms": n + 7} for n in range(0, 1_000, 2)]
    comes += [{"key": "nobody", "offset": 1, "at_ms": 10**9}]  # all ends in the last batch
    send(cluster, {"operations": pa.Table.from_pylist(waits)})
    send(cluster, {"signals": pa.Table.from_pylist(comes)})
    command = [
        sys.executable,
        "-m",
        "tests.spark.kafka_rerun_driver",
        cluster.bootstrap_servers,
        ",".join(connector),
    ]
    log = tmp_path / "log"
    driver = Driver([*command, str(tmp_path)], log)
    while status := driver.end(PATIENCE_S):
        assert driver.was_too_slow(), (status, log.read_text()[-5000:])
        driver = Driver([*command, str(tmp_path)], log)
    found = read(cluster, ends(cluster))
    assert sorted(row["id"] for row in found) == sorted(row["id"] for row in waits)
    assert sum(row["status"] == "completed" for row in found) == 500
