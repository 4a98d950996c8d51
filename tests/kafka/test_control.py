"""The control port: a cluster's clock, faults, topics and purgatories over HTTP."""

from __future__ import annotations

import http.client
import json
import logging
import signal
import socket
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

pytest.importorskip("kio", reason="kio is not installed: pip install sojourn[kafka]")

from sojourn import ManualClock
from sojourn.cli import main
from sojourn.errors import SojournError
from sojourn.kafka import Cluster
from sojourn.kafka.control import Control
from sojourn.kafka.control.routes import ROUTES
from tests.kafka.test_command import start
from tests.kafka.wire_client import WireClient, connect, only
from tests.until import PATIENCE_S, until


class Caller:
    """Calls the control port, on one connection."""

    def __init__(self, url: str) -> None:
        split = urlsplit(url)
        assert split.hostname is not None
        self._connection = http.client.HTTPConnection(
            split.hostname, split.port or 80, timeout=PATIENCE_S
        )

    def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        self._connection.request(method, path, data, headers)
        response = self._connection.getresponse()
        assert response.headers["content-type"] == "application/json"
        return response.status, json.loads(response.read())

    def ok(self, method: str, path: str, body: Any = None) -> Any:
        status, answer = self(method, path, body)
        assert status in (200, 201), answer
        return answer

    def error(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, str]:
        status, answer = self(method, path, body, **headers)
        assert status >= 400
        assert answer["error"]["message"]
        return status, answer["error"]["code"]

    def close(self) -> None:
        self._connection.close()


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3, clock=ManualClock()) as cluster:
        yield cluster


@pytest.fixture
def call(cluster: Cluster) -> Iterator[Caller]:
    with Control(cluster) as control:
        caller = Caller(control.url)
        yield caller
        caller.close()


def test_it_says_what_there_is(call: Caller, cluster: Cluster) -> None:
    routes = call.ok("GET", "/")["routes"]
    assert len(routes) == len(ROUTES)
    assert all(route["does"] for route in routes)
    described = call.ok("GET", "/cluster")
    assert described["bootstrap_servers"] == cluster.bootstrap_servers
    assert [broker["id"] for broker in described["brokers"]] == [1, 2, 3]


def test_the_clock_is_moved(call: Caller, cluster: Cluster) -> None:
    before = call.ok("GET", "/clock")
    assert before["manual"] is True
    after = call.ok("POST", "/clock/advance", {"ms": 20_000})
    assert after["now_ms"] == before["now_ms"] + 20_000 == cluster.now_ms()
    assert after["wall_ms"] == before["wall_ms"] + 20_000


def test_a_clock_that_runs_is_not_moved() -> None:
    with Cluster() as cluster, Control(cluster) as control:
        call = Caller(control.url)
        assert call.ok("GET", "/clock")["manual"] is False
        assert call.error("POST", "/clock/advance", {"ms": 1}) == (409, "clock_runs")
        call.close()


def test_a_fault_is_scripted_counted_waited_for_and_ended(call: Caller, cluster: Cluster) -> None:
    call.ok("POST", "/topics", {"name": "orders"})
    fault = call.ok(
        "POST",
        "/faults",
        {"do": "answer", "api": "Produce", "error": "NOT_LEADER", "topic": "orders", "times": 2},
    )
    assert (fault["id"], fault["hits"], fault["active"]) == (1, 0, True)
    leader = cluster.leader("orders", 0)
    with connect(cluster, leader) as wire:
        answered = threading.Thread(
            target=lambda: [wire.ask(wire.produce("orders")) for _ in range(2)]
        )
        answered.start()
        waited = call.ok("GET", "/faults/1?hits=2")
        answered.join()
        assert (waited["hits"], waited["active"]) == (2, False)
        assert only(wire.ask(wire.produce("orders"))).error_code == 0
    call.ok("POST", "/faults", {"do": "delay", "ms": 5})
    assert call.ok("DELETE", "/faults/2")["active"] is False
    call.ok("POST", "/faults", {"do": "drop"})
    assert [one["active"] for one in call.ok("DELETE", "/faults")["faults"]] == [False] * 3
    assert len(cluster.faults) == 0


def test_topics_come_and_go(call: Caller, cluster: Cluster) -> None:
    asked = {"name": "a", "partitions": 2, "replication_factor": 3, "config": {"retention.ms": 5}}
    status, made = call("POST", "/topics", asked)
    assert status == 201
    assert [one["replicas"] for one in made["partitions"]] == [
        list(partition.replicas) for partition in cluster.controller.topics["a"].partitions
    ]
    assert call.ok("GET", "/topics")["topics"] == [made]
    assert call.ok("GET", "/topics/a") == made
    assert call.error("POST", "/topics", {"name": "a"}) == (409, "topic_already_exists")
    call.ok("DELETE", "/topics/a")
    assert call.error("GET", "/topics/a") == (404, "no_such_topic")


def test_a_compacted_topic_is_cleaned_at_once(call: Caller, cluster: Cluster) -> None:
    call.ok("POST", "/topics", {"name": "a", "config": {"cleanup.policy": "compact"}})
    cluster.append("a", [("key", "1"), ("key", "2")])
    assert call.ok("POST", "/topics/a/compact")["partitions"][0]["end_offset"] == 2
    assert [record.offset for record in cluster.records("a")] == [1]
    cluster.create_topic("b")
    assert call.error("POST", "/topics/b/compact") == (400, "policy_violation")


def test_records_are_appended_and_read(call: Caller, cluster: Cluster) -> None:
    call.ok("POST", "/topics", {"name": "a", "partitions": 2})
    given = [
        "one",
        {"key": "k", "value": {"base64": "/w=="}, "headers": {"h": "1", "n": None}},
        {"value": None, "timestamp_ms": cluster.wall_ms() - 5, "headers": [{"name": "x"}]},
    ]
    placed = call.ok("POST", "/topics/a/records", {"records": given, "partition": 1})["records"]
    assert placed == call.ok("GET", "/topics/a/records")["records"]
    assert placed == call.ok("GET", "/topics/a/records?partition=1&committed=false")["records"]
    assert call.ok("GET", "/topics/a/records?partition=0")["records"] == []
    assert [one["offset"] for one in placed] == [0, 1, 2]
    assert [one["value"] for one in placed] == ["one", {"base64": "/w=="}, None]
    assert placed[1]["key"] == "k"
    assert placed[1]["headers"] == [{"name": "h", "value": "1"}, {"name": "n", "value": None}]
    assert placed[2]["timestamp_ms"] == cluster.wall_ms() - 5


def test_replicas_and_brokers_are_held_back_and_let_go(call: Caller, cluster: Cluster) -> None:
    call.ok("POST", "/topics", {"name": "a", "replication_factor": 3})
    leader = cluster.leader("a", 0)
    followers = [broker.id for broker in cluster.brokers if broker.id != leader]
    for follower in followers:
        call.ok("POST", f"/topics/a/partitions/0/replicas/{follower}/pause")
    with connect(cluster, leader) as wire:
        wire.send(wire.produce("a", timeout_ms=500))
        assert call.ok("GET", "/purgatories/produce?watched=1")["watched"] == 1
        call.ok("POST", "/clock/advance", {"ms": 500})
        assert call.ok("GET", "/purgatories/produce?expired=1")["expired"] == 1
        assert only(wire.receive()).error_code == 7
    assert call.ok("GET", "/topics/a/records")["records"] == []
    call.ok("POST", f"/topics/a/partitions/0/replicas/{followers[0]}/lag", {"ms": 5})
    for follower in followers:
        call.ok("POST", f"/topics/a/partitions/0/replicas/{follower}/resume")
    assert len(call.ok("GET", "/topics/a/records")["records"]) == 1
    moved = call.ok("POST", "/topics/a/partitions/0/leader", {"broker": followers[0]})
    assert moved["partitions"][0]["leader"] == followers[0] == cluster.leader("a", 0)
    assert call.ok("POST", f"/brokers/{leader}/stop")["alive"] is False
    assert call.ok("POST", f"/brokers/{leader}/start")["alive"] is True


def test_groups_are_shown_with_what_they_have_committed(call: Caller, cluster: Cluster) -> None:
    from tests.kafka.test_command import JOIN

    assert call.ok("GET", "/groups") == {"groups": []}
    assert call.error("GET", "/groups/g") == (404, "no_such_group")
    call.ok("POST", "/topics", {"name": "a"})
    first, second = cluster.coordinator("g"), cluster.coordinator("h")
    assert first is not None
    assert second is not None
    with WireClient(first.host, first.port) as client:
        client.ask("join_group", 0, **JOIN)
        group = call.ok("GET", "/groups/g?state=CompletingRebalance")
        assert (group["state"], group["generation"], group["members"]) == (
            "CompletingRebalance",
            1,
            1,
        )
    with WireClient(second.host, second.port) as client:
        client.ask(
            "offset_commit",
            2,
            group_id="h",
            generation_id_or_member_epoch=-1,
            member_id="",
            retention_time=-1,
            topics=[
                {
                    "name": "a",
                    "partitions": [
                        {"partition_index": 0, "committed_offset": 7, "committed_metadata": ""}
                    ],
                }
            ],
        )
    assert call.ok("GET", "/groups/h")["offsets"] == [{"topic": "a", "partition": 0, "offset": 7}]
    assert {group["id"] for group in call.ok("GET", "/groups")["groups"]} == {"g", "h"}


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("GET", "/nothing", None, 404, "not_found"),
        ("PUT", "/clock", None, 405, "bad_method"),
        ("POST", "/clock/advance", None, 400, "missing"),
        ("POST", "/clock/advance", {"ms": "x"}, 400, "bad_type"),
        ("POST", "/clock/advance", {"ms": -1}, 400, "bad_value"),
        ("POST", "/clock/advance", {"ms": 1, "s": 1}, 400, "unknown_field"),
        ("POST", "/clock/advance", b"{", 400, "bad_json"),
        ("POST", "/clock/advance", b"[" * 100_000, 400, "bad_json"),
        ("POST", "/clock/advance", [1], 400, "bad_json"),
        ("POST", "/topics", {"name": "a b"}, 400, "invalid_topic_exception"),
        ("POST", "/topics", {"name": True}, 400, "bad_type"),
        ("POST", "/topics", {"name": "x", "config": {"no.such": 1}}, 400, "bad_value"),
        ("GET", "/topics/there/records?partition=5", None, 400, "unknown_topic_or_partition"),
        ("POST", "/topics/there/records", {"records": [5]}, 400, "bad_value"),
        ("POST", "/topics/there/records", {"records": [{"v": 5}]}, 400, "bad_value"),
        ("POST", "/topics/there/records", {"records": [{"headers": 5}]}, 400, "bad_value"),
        ("POST", "/topics/there/records", {"records": [{"base64": "%"}]}, 400, "bad_value"),
        ("POST", "/topics/there/records", {"records": []}, 400, "bad_value"),
        ("POST", "/topics/there/partitions/x/leader", {"broker": 1}, 404, "no_such_partition"),
        ("POST", "/topics/there/partitions/7/leader", {"broker": 1}, 404, "no_such_partition"),
        ("POST", "/brokers/9/stop", None, 404, "no_such_broker"),
        ("GET", "/faults/3", None, 404, "no_such_fault"),
        ("POST", "/faults", {"do": "burn"}, 400, "bad_fault"),
        ("POST", "/faults", {"do": "delay"}, 400, "bad_fault"),
        ("POST", "/faults", {"do": "drop", "colour": 5}, 400, "bad_fault"),
        ("POST", "/faults", {"do": "drop", "api": "nothing"}, 400, "bad_value"),
        ("GET", "/purgatories/heaven", None, 404, "no_such_purgatory"),
        ("GET", "/purgatories/produce?watched=1&timeout_ms=1", None, 504, "timed_out"),
        ("GET", "/purgatories/produce?timeout_ms=-1", None, 400, "out_of_range"),
    ],
    ids=range(29),
)
def test_what_cannot_be_done_is_said_with_a_code(
    method: str, path: str, body: Any, status: int, code: str, call: Caller, cluster: Cluster
) -> None:
    cluster.create_topic("there")
    assert call.error(method, path, body) == (status, code)
    assert call.ok("GET", "/cluster")  # the connection goes on, or the next one does


def test_a_page_of_a_stranger_cannot_call(call: Caller) -> None:
    assert call.error("GET", "/cluster", Host="evil.example") == (421, "bad_host")
    assert call.error("POST", "/faults", {"do": "drop"}, Origin="http://evil.example") == (
        403,
        "bad_origin",
    )


def test_another_name_of_the_machine_has_to_be_told(cluster: Cluster) -> None:
    with Control(cluster, host_names=["kafka.test"]) as control:
        call = Caller(control.url)
        assert call("GET", "/clock", Host="kafka.test:80")[0] == 200
        assert call.error("GET", "/clock", Host="other.test")[0] == 421
        call.close()


def raw(control: Control, data: bytes) -> bytes:
    with socket.create_connection((control.host, control.port), timeout=PATIENCE_S) as sock:
        sock.sendall(data)
        sock.shutdown(socket.SHUT_WR)
        answer = b""
        while some := sock.recv(65536):
            answer += some
        return answer


def test_what_is_no_http_is_answered_in_json_or_not_at_all(cluster: Cluster) -> None:
    with Control(cluster) as control:
        host = f"Host: {control.host}:{control.port}\r\n".encode()
        for data, expected in [
            (b"\x16\x03\x01\x02\x00\r\n\r\n", b'"bad_request"'),
            (b"GET / HTTP/9.9\r\n\r\n", b'"bad_request"'),
            (b"GET /clock HTTP/1.1\r\n\r\n", b'"bad_host"'),
            (b"POST /faults HTTP/1.1\r\n" + host + b"Content-Length: x\r\n\r\n", b'"bad_length"'),
            (
                b"POST /faults HTTP/1.1\r\n" + host + b"Transfer-Encoding: chunked\r\n\r\n",
                b'"no_length"',
            ),
            (
                b"POST /faults HTTP/1.1\r\n" + host + b"Content-Length: 99999999999\r\n\r\n",
                b'"too_large"',
            ),
            (b"POST /faults HTTP/1.1\r\n" + host + b"Content-Length: 9\r\n\r\n{", b""),
        ]:
            answer = raw(control, data)
            assert expected in answer, (data, answer)
            assert b"Traceback" not in answer


def test_a_bug_is_logged_and_told_by_a_number(
    call: Caller, cluster: Cluster, caplog: pytest.LogCaptureFixture, monkeypatch: Any
) -> None:
    monkeypatch.setattr(type(cluster), "bootstrap_servers", property(lambda _: 1 / 0))
    with caplog.at_level(logging.ERROR, "sojourn"):
        status, answer = call("GET", "/cluster")
    assert status == 500
    assert answer["error"]["code"] == "internal"
    assert answer["error"]["message"].split()[-1] in caplog.text


def test_closing_ends_who_waits_and_leaves_no_thread(cluster: Cluster) -> None:
    before = set(threading.enumerate())
    control = Control(cluster)
    idle, waiting = Caller(control.url), Caller(control.url)
    idle.ok("GET", "/clock")
    ended = []

    def wait() -> None:
        try:
            ended.append(waiting("GET", "/purgatories/produce?watched=5&timeout_ms=60000"))
        except (OSError, http.client.HTTPException) as error:
            ended.append((0, error))

    thread = threading.Thread(target=wait)
    thread.start()
    # Accepting, two calls, and ours.
    until(lambda: len(set(threading.enumerate()) - before) == 4, "four threads more")
    control.close()
    control.close()
    thread.join(PATIENCE_S)
    assert ended
    assert set(threading.enumerate()) <= before
    for one in (idle, waiting):
        one.close()


def test_a_port_that_is_taken_is_said(cluster: Cluster) -> None:
    with Control(cluster) as control, pytest.raises(SojournError, match="cannot listen on"):
        Control(cluster, control.port)
    with pytest.raises(SojournError, match="port 70000"):
        Control(cluster, 70_000)


def test_certificates_and_mechanisms_are_told() -> None:
    pytest.importorskip("trustme", reason="trustme is not installed: sojourn[kafka-tls]")
    with (
        Cluster(security="SASL_SSL", users={"alice": "secret"}) as cluster,
        Control(cluster) as control,
    ):
        call = Caller(control.url)
        security = call.ok("GET", "/cluster")["security"]
        assert security["protocol"] == "SASL_SSL"
        assert security["mechanisms"] == ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
        assert security["ca_file"] == cluster.ca_file
        assert security["ca_pem"].startswith("-----BEGIN CERTIFICATE-----")
        fault = call.ok("POST", "/faults", {"do": "certificate", "flaw": "expired"})
        assert fault["flaw"] == "expired"
        call.close()


# The command.


def test_the_command_serves_it_on_a_clock_that_is_moved() -> None:
    with start("--port", "0", "--control", "0", "--manual-clock", "--topic", "orders") as process:
        assert process.stdout is not None
        servers = process.stdout.readline().split()[-1]
        call = Caller(process.stdout.readline().split()[-1])
        assert call.ok("GET", "/cluster")["bootstrap_servers"] == servers
        assert call.ok("POST", "/clock/advance", {"ms": 60_000})["now_ms"] == 60_000
        call.close()
        process.send_signal(signal.SIGINT)
        _, complaints = process.communicate(timeout=PATIENCE_S)
        assert complaints == "interrupted\n"


def test_the_command_says_what_clients_are_to_trust(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("trustme", reason="trustme is not installed: sojourn[kafka-tls]")
    options = ["--security", "SASL_SSL", "--user", "alice:secret"]
    assert main(["kafka", "--port", "0", "--for", "0", *options]) == 0
    assert "clients must trust " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--control", "70000"], "--control must be a port"),
        (["--manual-clock"], "--manual-clock needs --control PORT"),
        (["--user", "alice"], "'alice' is not a user: write NAME:PASSWORD"),
        (["--user", "alice:secret"], "PLAINTEXT has no users"),
        (["--security", "SASL_SSL"], "SASL_SSL needs users"),
    ],
    ids=["port", "clock", "user", "users", "sasl"],
)
def test_the_command_says_what_cannot_be(
    options: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["kafka", "--port", "0", "--for", "0", *options]) == 2
    assert complaint in capsys.readouterr().err
