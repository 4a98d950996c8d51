"""Where a scripted error stands in an answer, compared with where Kafka's own classes put it."""

from __future__ import annotations

import io
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import pytest

pytest.importorskip("kio", reason="kio is not installed: pip install sojourn[kafka]")

from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

from sojourn import ManualClock
from sojourn.kafka import Cluster
from sojourn.kafka import wire as protocol
from sojourn.kafka.apis.answer_shapes import can_carry_error
from tests.kafka.conformance import compare
from tests.kafka.conformance.exchange import plain
from tests.kafka.conformance.recording import Answer
from tests.kafka.java_programs import jars_or_skip
from tests.kafka.test_scripted_faults import sample
from tests.kafka.wire_client import WireClient

KAFKA = "3.9.2"  # which still reads the oldest versions

# Kafka's classes answer for a request of which nothing is known but that it has failed. A broker
# that knows more says more, and so do we.
OTHERWISE = {
    "fetch": "an error of a partition stands in its row, not over the whole answer",
    "elect_leaders": "the same",
    "alter_partition_reassignments": "the same",
    "metadata": "the brokers are told all the same",
    "describe_log_dirs": "versions 1 and 2 have no place for it, and Kafka says nothing",
    "list_partition_reassignments": "no rows without anything in them",
    "describe_user_scram_credentials": "no rows without a user's name",
}
# Beside an error these say nothing.
UNSAID = ("message", "configs", "metadata", "_epoch", "producer_id")


class Asked(NamedTuple):
    api: str
    version: int
    request: str
    answer: Any


def our_refusals() -> list[Asked]:
    """A request of each version of each API, and our answer to it."""
    asked = []
    with Cluster(clock=ManualClock()) as cluster:
        topic = cluster.create_topic("orders", partitions=3)
        broker = cluster.brokers[0]
        for api in filter(can_carry_error, sorted(protocol.VERSIONS)):
            low, high = protocol.VERSIONS[api]
            for version in range(low, high + 1):
                schema: Any = load_request_schema(protocol.API_KEYS[api], version)
                request = sample(schema, topic.id)
                body = io.BytesIO()
                entity_writer(schema)(body, request)
                cluster.faults.answer(api, "POLICY_VIOLATION", times=1)
                with WireClient(broker.host, broker.port) as client:
                    client.send(request)
                    answer = plain(client.receive())
                asked.append(Asked(api, version, body.getvalue().hex(), answer))
    return asked


def kafkas_refusals(asked: list[Asked], jars: Path) -> list[str]:
    """What Kafka's classes make of the same requests, in hex; or why they do not."""
    program = Path(__file__).parent / "conformance" / "Refusals.java"
    lines = "".join(f"{protocol.API_KEYS[one.api]} {one.version} {one.request}\n" for one in asked)
    ran = subprocess.run(
        ["java", "-cp", f"{jars}/*", str(program)],
        input=lines,
        capture_output=True,
        text=True,
        check=True,
    )
    return ran.stdout.splitlines()


@pytest.mark.nightly
def test_errors_stand_where_kafka_puts_them() -> None:
    jars = jars_or_skip(KAFKA)
    asked = our_refusals()
    ours, theirs = [], []
    for one, line in zip(asked, kafkas_refusals(asked, jars), strict=True):
        if one.api in OTHERWISE or line.startswith("error"):  # a version that Kafka 3.9 lacks
            continue
        schema: Any = load_response_schema(protocol.API_KEYS[one.api], one.version)
        answer = plain(entity_reader(schema)(bytes.fromhex(line), 0)[0])
        step = f"version {one.version}"
        theirs.append(Answer(one.api, step, answer))
        ours.append(Answer(one.api, step, one.answer))
    assert len(theirs) > 150
    differing = compare.differences(KAFKA, theirs, ours)
    told = [one for one in differing if not one.field.endswith(UNSAID)]
    assert not told, "\n".join(map(str, told))
