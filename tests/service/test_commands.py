"""Submits, signals and cancels over HTTP: one or many, each row answered for itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sojourn import ManualClock
from sojourn.durable import Purgatory
from sojourn.service import Limits
from tests.service.harness import Running, running

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("commands")) as one:
        yield one


def row(id: str, *requires: tuple[str, int], timeout_ms: int = 600_000, **more: Any) -> Any:
    asked = [{"key": key, "offset": offset} for key, offset in requires or ((f"{id}/k", 1),)]
    return {"id": id, "requires": asked, "timeout_ms": timeout_ms, **more}


def test_an_operation_that_is_accepted_comes_back_whole(served: Running) -> None:
    asked = row("whole", ("a", 1), ("b", -5), needed=1, payload={"x": [1]})
    asked |= {"class": "orders", "traceparent": TRACE}
    answer = served.http.post("/v1/operations", json=asked)
    assert answer.status_code == 201
    reply = answer.json()
    assert reply["verdict"] == "accepted"
    operation = reply["operation"]
    assert operation == {
        "id": "whole",
        "status": "waiting",
        "submitted_ms": reply["at_ms"],
        "deadline_ms": reply["at_ms"] + 600_000,
        "timeout_ms": 600_000,
        "at_ms": None,
        "by_key": None,
        "waited_ms": None,
        "class": "orders",
        "number": None,
        "requires": [{"key": "a", "offset": 1}, {"key": "b", "offset": -5}],
        "needed": 1,
        "traceparent": TRACE,
        "payload": {"x": [1]},
    }


def test_every_verdict_has_its_status(served: Running) -> None:
    post = served.http.post
    assert post("/v1/operations", json=row("v")).status_code == 201
    again = post("/v1/operations", json=row("v"))
    assert (again.status_code, again.json()["verdict"]) == (200, "duplicate")
    other = post("/v1/operations", json=row("v", timeout_ms=1))
    assert (other.status_code, other.json()["error"]["code"]) == (409, "id_taken")
    signal = {"key": "v/k", "offset": 1}
    assert post("/v1/signals", json=signal).json()["verdict"] == "accepted"
    unchanged = post("/v1/signals", json=signal)
    assert (unchanged.status_code, unchanged.json()["verdict"]) == (200, "unchanged")
    ended = post("/v1/cancels", json={"id": "v"})
    assert (ended.status_code, ended.json()["verdict"]) == (200, "ended")
    assert ended.json()["operation"]["status"] == "completed"
    unknown = post("/v1/cancels", json={"id": "nobody"})
    assert (unknown.status_code, unknown.json()["verdict"]) == (404, "unknown")
    post("/v1/operations", json=row("w"))
    assert post("/v1/cancels", json={"id": "w"}).json()["operation"]["status"] == "cancelled"


def test_a_bad_row_of_many_is_refused_by_itself(served: Running) -> None:
    rows = [
        row("many-1"),
        row("many-2") | {"timeout_ms": "soon"},
        row("many-3") | {"requires": []},
        row("many-4") | {"extra": 1},
        17,
        row("many-5"),
        row("many-1", timeout_ms=1),
    ]
    answer = served.http.post("/v1/operations", json=rows)
    assert answer.status_code == 200
    answers = answer.json()["answers"]
    verdicts = [each["verdict"] for each in answers]
    assert verdicts == ["accepted", *["refused"] * 4, "accepted", "refused"]
    codes = [each["error"]["code"] for each in answers if "error" in each]
    assert codes == ["bad_row"] * 4 + ["id_taken"]
    assert "timeout_ms" in answers[1]["error"]["message"]
    assert [each["operation"]["id"] for each in answers if "operation" in each] == [
        "many-1",
        "many-5",
    ]


def test_no_rows_are_answered_with_no_answers(served: Running) -> None:
    for path in ("operations", "signals", "cancels"):
        answer = served.http.post(f"/v1/{path}", json=[])
        assert (answer.status_code, answer.json()) == (200, {"answers": []})


@pytest.mark.parametrize(
    "payload",
    [{"a": [1, 2.5, None, True, {"ü": "\U0001f600"}]}, "text", "", 0, -(2**63), 1.5, True, [], {}],
)
def test_a_payload_of_json_comes_back_as_it_was_given(served: Running, payload: Any) -> None:
    id = f"payload-{payload!r}"
    served.http.post("/v1/operations", json=row(id, payload=payload)).raise_for_status()
    reply = served.http.get(f"/v1/operations/{id.replace('/', '%2F')}").json()
    assert reply["payload"] == payload
    assert type(reply["payload"]) is type(payload)


def test_a_payload_of_bytes_comes_back_as_bytes(served: Running) -> None:
    served.http.post("/v1/operations", json=row("bytes", payload_base64="AAH/")).raise_for_status()
    reply = served.http.get("/v1/operations/bytes").json()
    assert reply["payload_base64"] == "AAH/"
    assert "payload" not in reply


def test_no_payload_is_told_as_none(served: Running) -> None:
    served.http.post("/v1/operations", json=row("no-payload", payload=None)).raise_for_status()
    assert "payload" not in served.http.get("/v1/operations/no-payload").json()


def test_two_payloads_are_refused(served: Running) -> None:
    both = row("both", payload=1, payload_base64="AAEC")
    answer = served.http.post("/v1/operations", json=both)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "bad_row")


def test_the_traceparent_of_the_header_is_taken_if_the_row_has_none(served: Running) -> None:
    def trace(id: str, header: str, **more: Any) -> Any:
        answer = served.http.post(
            "/v1/operations", json=row(id, **more), headers={"traceparent": header}
        )
        return answer.json()["operation"]["traceparent"]

    other = TRACE.replace("b7", "c7")
    assert trace("trace-1", TRACE) == TRACE
    assert trace("trace-2", TRACE, traceparent=other) == other
    assert trace("trace-3", "broken") is None  # W3C: as if it were not there


def test_a_broken_traceparent_in_a_row_is_refused(served: Running) -> None:
    answer = served.http.post("/v1/operations", json=row("trace-4", traceparent="broken"))
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "bad_row")
    assert "traceparent" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "bad_json"),
        (b"{", "bad_json"),
        (b"[", "bad_json"),
        (b"[1,", "bad_json"),
        (b"nonsense", "bad_json"),
        (b'{"id":"\\ud800","requires":[],"timeout_ms":1}', "bad_json"),
        (b'{"id":"\xff","requires":[],"timeout_ms":1}', "bad_json"),
        (b"[" * 5000, "bad_json"),
        (b"17", "bad_row"),
        (b"null", "bad_row"),
        (b"{}", "bad_row"),
        (b'{"id":"","requires":[{"key":"k","offset":1}],"timeout_ms":1}', "bad_row"),
        (b'{"id":"x","requires":[{"key":"","offset":1}],"timeout_ms":1}', "bad_row"),
        (b'{"id":"x","requires":[{"key":"k","offset":1e400}],"timeout_ms":1}', "bad_row"),
        (b'{"id":"x","requires":[{"key":"k","offset":%d}],"timeout_ms":1}' % (1 << 63), "bad_row"),
        (b'{"id":"x","requires":[{"key":"k","offset":1}],"timeout_ms":-1}', "bad_row"),
        (b'{"id":"x","requires":[{"key":"k","offset":1}],"timeout_ms":1,"needed":2}', "bad_row"),
        (b'{"id":"x","requires":[{"key":"k","offset":1}],"timeout_ms":1,"needed":0}', "bad_row"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_refused_with_a_reason(
    served: Running, body: bytes, code: str
) -> None:
    answer = served.http.post(
        "/v1/operations", content=body, headers={"content-type": "application/json"}
    )
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, code)
    assert answer.json()["error"]["message"]


def test_a_payload_nested_too_deeply_is_refused(served: Running) -> None:
    payload: Any = 1
    for _ in range(500):
        payload = [payload]
    answer = served.http.post("/v1/operations", json=[row("deep", payload=payload), row("flat")])
    refused, accepted = answer.json()["answers"]
    assert refused["error"]["code"] == "bad_row"
    assert accepted["verdict"] == "accepted"


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "", "json"])
def test_a_body_that_is_not_said_to_be_json_is_refused(served: Running, kind: str) -> None:
    answer = served.http.post(
        "/v1/signals", content=b'{"key":"k","offset":1}', headers={"content-type": kind}
    )
    assert (answer.status_code, answer.json()["error"]["code"]) == (415, "bad_content")


def test_a_compressed_body_is_refused(served: Running) -> None:
    answer = served.http.post(
        "/v1/signals",
        content=b"x",
        headers={"content-type": "application/json", "content-encoding": "gzip"},
    )
    assert (answer.status_code, answer.json()["error"]["code"]) == (415, "bad_content")


def test_each_limit_has_a_code_of_its_own(tmp_path: Path) -> None:
    limits = Limits(
        body_bytes=2000, rows=3, id_bytes=10, key_bytes=12, payload_bytes=20, requirements=2
    )
    with running(tmp_path, limits=limits) as served:

        def code(path: str, body: Any) -> tuple[int, str]:
            answer = served.http.post(f"/v1/{path}", json=body)
            return answer.status_code, answer.json()["error"]["code"]

        assert code("operations", row("x" * 3000)) == (413, "too_large")
        assert code("operations", [row(str(n)) for n in range(4)]) == (413, "too_many_rows")
        assert code("operations", row("ü" * 6)) == (400, "id_too_long")
        assert code("cancels", {"id": "x" * 11}) == (400, "id_too_long")
        assert code("signals", {"key": "x" * 13, "offset": 1}) == (400, "key_too_long")
        assert code("operations", row("x", ("y" * 13, 1))) == (400, "key_too_long")
        assert code("operations", row("x", payload="z" * 20)) == (400, "payload_too_large")
        assert code("operations", row("x", payload_base64="A" * 44)) == (400, "payload_too_large")
        many = row("x", ("a", 1), ("b", 1), ("c", 1))
        assert code("operations", many) == (400, "too_many_requirements")
        good = row("0123456789", ("0123456789ab", 1), ("b", 1), payload="z" * 18)
        assert served.http.post("/v1/operations", json=good).status_code == 201
        body = b'{"key":"k","offset":1' + b" " * 3000 + b"}"

        def parts() -> Iterator[bytes]:  # without a content-length
            for at in range(0, len(body), 500):
                yield body[at : at + 500]

        answer = served.http.post(
            "/v1/signals", content=parts(), headers={"content-type": "application/json"}
        )
        assert (answer.status_code, answer.json()["error"]["code"]) == (413, "too_large")


def test_above_max_waiting_submits_are_refused_and_signals_taken(tmp_path: Path) -> None:
    with running(tmp_path, max_waiting=2) as served:
        served.submit("a")
        served.submit("b")
        answer = served.http.post("/v1/operations", json=row("c"))
        assert (answer.status_code, answer.json()["error"]["code"]) == (429, "full")
        assert answer.headers["retry-after"]
        served.signal("k", 1)
        served.submit("c", "other")


def test_a_disk_that_refuses_is_said_with_503_and_reads_go_on(
    served: Running, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    served.submit("kept", "never")
    store = served.service.purgatory._shell.store

    def write(*_: Any) -> None:
        raise OSError("disk I/O error")

    with monkeypatch.context() as broken:
        broken.setattr(store, "write", write)
        one = served.http.post("/v1/signals", json={"key": "disk", "offset": 1})
        many = served.http.post("/v1/signals", json=[{"key": "disk", "offset": 1}])
        for answer in (one, many):
            assert (answer.status_code, answer.json()["error"]["code"]) == (503, "not_written")
        assert served.http.get("/v1/operations/kept").json()["status"] == "waiting"
        assert served.http.get("/readyz").status_code == 503
        assert served.http.get("/healthz").status_code == 200

        def full(*_: Any) -> None:
            raise OSError("database or disk is full")

        broken.setattr(store, "write", full)
        answer = served.http.post("/v1/signals", json={"key": "disk", "offset": 1})
        assert (answer.status_code, answer.json()["error"]["code"]) == (507, "not_written")
    assert served.http.post("/v1/signals", json={"key": "disk", "offset": 1}).status_code == 201
    assert served.http.get("/readyz").status_code == 200


def test_a_file_that_has_to_be_opened_again_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with running(tmp_path) as served:
        served.submit("a")
        served.service.purgatory._shell._fail([], OSError("a batch may be on disk only"))
        for _ in range(2):
            answer = served.http.post("/v1/signals", json={"key": "k", "offset": 1})
            assert (answer.status_code, answer.json()["error"]["code"]) == (503, "unavailable")
        assert served.http.get("/readyz").status_code == 503
        assert served.http.get("/healthz").status_code == 200
        assert served.http.get("/v1/operations/a").json()["status"] == "waiting"


def test_times_are_those_of_the_purgatory(tmp_path: Path) -> None:
    clock = ManualClock()
    with (
        Purgatory(tmp_path / "waits.db", clock=clock) as purgatory,
        running(tmp_path, purgatory) as served,
    ):
        served.submit("late", timeout_ms=100)
        clock.advance(200)
        reply = served.http.get("/v1/operations/late").json()
        assert (reply["status"], reply["waited_ms"]) == ("expired", 100)
