"""`sojourn kafka` runs a cluster, tells what waits in it, and ends when it is told to."""

from __future__ import annotations

import io
import os
import signal
import socket
import subprocess
import sys
from typing import Any

import pytest

pytest.importorskip("kio", reason="kio is not installed: pip install sojourn[kafka]")

from sojourn import ManualClock
from sojourn.cli import main
from sojourn.cli.kafka import topic
from sojourn.cli.kafka_display import StatusLines, groups, picture, rows
from sojourn.kafka import Cluster
from tests.kafka.wire_client import WireClient
from tests.until import PATIENCE_S

JOIN = {
    "group_id": "g",
    "session_timeout": 10_000,
    "rebalance_timeout": 60_000,
    "member_id": "",
    "protocol_type": "consumer",
    "protocols": [{"name": "range", "metadata": b""}],
}


def test_it_says_where_it_listens_and_ends_by_itself(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--brokers", "3", "--port", "0", "--for", "0"]
    assert main(["kafka", *options, "--topic", "a:2"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("listening on 127.0.0.1:")
    assert first.count(",") == 2
    assert second == "nothing has waited yet"
    assert main(["kafka", *options, "--topic", "a:2:3"]) == 0
    assert "fetch 4 waiting" in capsys.readouterr().out  # two followers of each partition


def test_quiet_says_only_where_it_listens(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kafka", "--port", "0", "--for", "0", "--quiet"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1


def start(*options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "sojourn", "kafka", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )


def test_ids_count_from_where_they_are_told_to() -> None:
    with start("--port", "0", "--brokers", "2", "--first-id", "0") as process:
        assert process.stdout is not None
        host, port = process.stdout.readline().split(",")[-1].split(":")
        with WireClient(host, int(port)) as client:
            brokers = client.ask("metadata", 1, topics=[]).brokers
        assert [broker.node_id for broker in brokers] == [0, 1]
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE_S)


def test_clients_are_served_until_ctrl_c() -> None:
    with start("--port", "0", "--config", "group.min.session.timeout.ms=1") as process:
        assert process.stdout is not None
        host, port = process.stdout.readline().split()[-1].split(":")
        with WireClient(host, int(port)) as client:
            answer = client.ask("join_group", 0, **{**JOIN, "session_timeout": 100_000})
            assert answer.generation_id == 1
            process.send_signal(signal.SIGINT)
            told, complaints = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 130
        assert complaints == "interrupted\n"
        assert "rebalance 1 waiting" in told.splitlines()[-1]
        assert "heartbeat 1 waiting" in told.splitlines()[-1]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--brokers", "0"], "--brokers must be 1 or more, got 0"),
        (["--first-id", "-1"], "--first-id must be 0 or more"),
        (["--first-id", "2147483647", "--brokers", "2"], "leave room for 2 ids"),
        (["--port", "65535", "--brokers", "2"], "--port must leave room for 2 ports"),
        (["--topic", "a:b"], "'a:b' is not a topic: write NAME, NAME:PARTITIONS"),
        (["--config", "a"], "'a' is no setting: write NAME=VALUE"),
        (["--config", "a=b"], "a"),
        (["--host", "not a host"], "cannot listen on not a host"),
    ],
)
def test_what_cannot_be_is_said_and_not_tried(
    options: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["kafka", "--for", "0", *options]) == 2
    said = capsys.readouterr()
    assert complaint in said.err
    assert "Traceback" not in said.err


def test_a_port_that_is_taken_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["kafka", "--for", "0", "--port", str(port)]) == 2
    assert f"cannot listen on 127.0.0.1, port {port}: " in capsys.readouterr().err


def test_a_topic_is_written_with_its_partitions_and_replicas() -> None:
    assert topic("a") == ("a", 1, 1)
    assert topic("a.b-c:6") == ("a.b-c", 6, 1)
    assert topic("a:6:3") == ("a", 6, 3)


def with_a_member(cluster: Cluster) -> None:
    broker = cluster.coordinator("g")
    assert broker is not None
    with WireClient(broker.host, broker.port) as client:
        client.ask("join_group", 0, **JOIN)


def test_the_view_shows_what_waits_and_what_has_ended() -> None:
    with Cluster(clock=ManualClock()) as cluster:
        with_a_member(cluster)
        told = {row.name: row for row in rows(cluster)}
        assert list(told) == [
            "produce",
            "fetch",
            "delete-records",
            "topic",
            "rebalance",
            "heartbeat",
            "transaction",
            "transaction-marker",
        ]
        assert told["heartbeat"].watched == told["heartbeat"].delayed == 1
        assert told["rebalance"].watched == 1  # its sync
        assert told["rebalance"].expired == 1  # its join, put off by 0 ms
        assert groups(cluster) == ["group g: CompletingRebalance, generation 1, 1 members"]
        drawn = text_of(picture(cluster))
        assert "heartbeat" in drawn
        assert "group g: CompletingRebalance" in drawn


def text_of(drawing: Any) -> str:
    from rich.console import Console

    console = Console(width=100, file=io.StringIO())
    console.print(drawing)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_many_groups_do_not_fill_the_screen() -> None:
    with Cluster() as cluster:
        with WireClient(cluster.brokers[0].host, cluster.brokers[0].port) as client:
            for n in range(12):
                client.ask("join_group", 0, **{**JOIN, "group_id": f"g{n}"})
        assert len(groups(cluster)) == 11
        assert groups(cluster)[-1] == "and 2 groups more"


def test_a_line_is_written_only_when_something_has_changed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with Cluster(clock=ManualClock()) as cluster:
        lines = StatusLines(cluster, every_s=0)
        lines.show()
        assert capsys.readouterr().out == ""
        with_a_member(cluster)
        lines.show()
        lines.show()
        assert capsys.readouterr().out.count("\n") == 1
        lazy = StatusLines(cluster, every_s=1_000)
        cluster.clock.advance(10_000)
        lazy.show()
        assert capsys.readouterr().out == ""
