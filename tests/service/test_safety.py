"""Safety: who may ask, from where, how much, and how long; and that no bug is shown to a client."""

from __future__ import annotations

import json
import logging
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from sojourn.errors import BadFile, OutOfRange
from sojourn.service import Limits, Settings, Tokens
from sojourn.service.connections import GuardedH11
from sojourn.service.errors import Refusal
from sojourn.service.routes import ACTIONS
from sojourn.service.server import check_address, is_loopback
from tests.service.harness import LONG_S, Running, running
from tests.until import until

READER, WRITER, ADMIN = "reader-0123456789", "writer-0123456789", "admin-0123456789ab"
TOKENS = Tokens(
    {
        READER: frozenset({"read"}),
        WRITER: frozenset({"write"}),
        ADMIN: frozenset({"read", "write", "admin"}),
    }
)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("safety"), host_names=("waits.example.com",)) as one:
        yield one


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("guarded"), tokens=TOKENS) as one:
        yield one


def code(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["code"]


# Tokens.


def test_every_action_asks_for_its_scope(guarded: Running) -> None:
    """From the table of routes: without a token 401, with the wrong scope 403."""
    for action in ACTIONS:
        path = action.plain_path.replace("{", "").replace("}", "")
        if action.scope is None:
            assert guarded.http.request(action.method, path).status_code not in (401, 403)
            continue
        assert code(guarded.http.request(action.method, path)) == (401, "unauthorized")
        wrong = {"read": WRITER, "write": READER, "admin": WRITER}[action.scope]
        headers = {"authorization": f"Bearer {wrong}"}
        assert code(guarded.http.request(action.method, path, headers=headers)) == (
            403,
            "forbidden",
        )


def test_what_needs_no_token_is_health_and_the_document() -> None:
    open_to_all = {action.path for action in ACTIONS if action.scope is None}
    assert {"/healthz", "/readyz", "/openapi.json"} <= open_to_all
    assert not any(path.startswith("/v1") for path in open_to_all)


@pytest.mark.parametrize(
    "given",
    [
        "Basic cmVhZGVyOng=",
        "Bearer",
        f"Bearer {READER}x",
        f"Bearer {READER[:-1]}",
        READER,
        f"Token {READER}",
        "Bearer \xfc",
    ],
)
def test_a_token_that_is_not_known_is_refused(guarded: Running, given: str) -> None:
    headers = {"authorization": given.encode("latin-1")}
    answer = guarded.http.get("/v1/outcomes", headers=headers)  # type: ignore[arg-type]
    assert code(answer) == (401, "unauthorized")
    assert "Bearer" in answer.headers["www-authenticate"]


def test_the_right_token_is_let_in(guarded: Running) -> None:
    for given in (f"Bearer {READER}", f"bearer {READER}", f"BEARER  {READER}"):
        answer = guarded.http.get("/v1/outcomes", headers={"authorization": given})
        assert answer.status_code == 200


def test_tokens_are_neither_logged_nor_shown(
    guarded: Running, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    answer = guarded.http.post(
        "/v1/signals", json={}, headers={"authorization": f"Bearer {READER}"}
    )
    assert READER not in answer.text
    assert READER not in caplog.text
    assert READER not in repr(guarded.service.settings)
    assert READER not in repr(vars(TOKENS))


def test_a_token_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text(f"# who may what\n\nread {READER}\nread,write\t {WRITER}\nadmin  {ADMIN}\n")
    tokens = Tokens.read(file)
    headers = {token: [(b"authorization", f"Bearer {token}".encode())] for token in (READER, ADMIN)}
    tokens.check(headers[READER], "read")
    tokens.check(headers[ADMIN], "write")
    with pytest.raises(Refusal, match="scope write"):
        tokens.check(headers[READER], "write")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "no token"),
        ("# nothing\n", "no token"),
        (READER, "line 1"),
        (f"\nroot {READER}", "line 2"),
        ("read short", "less than 16"),
        (f"read {READER}\nwrite {READER}", "twice"),
        (f"read {READER} {WRITER}", "line 1"),
        (f"read {READER}ü", "line 1"),
    ],
)
def test_a_token_file_that_is_wrong_is_refused_without_showing_it(
    tmp_path: Path, text: str, what: str
) -> None:
    file = tmp_path / "tokens"
    file.write_text(text)
    with pytest.raises(BadFile, match=what) as error:
        Tokens.read(file)
    assert READER not in str(error.value)


def test_a_token_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="cannot be read"):
        Tokens.read(tmp_path / "none")


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.1", "::", "example.com", "128.0.0.1"])
def test_an_address_that_others_reach_needs_tokens(tmp_path: Path, host: str) -> None:
    with pytest.raises(OutOfRange, match="--token-file"):
        check_address(Settings(tmp_path, host=host))
    check_address(Settings(tmp_path, host=host, tokens=TOKENS))


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "::1", "[::1]", "localhost"])
def test_loopback_needs_none(host: str) -> None:
    assert is_loopback(host)


# Hosts and origins.


@pytest.mark.parametrize(
    "host",
    ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "evil:80", "", "a b", "["],
)
def test_a_request_for_another_host_is_refused(served: Running, host: str) -> None:
    for path in ("/v1/outcomes", "/", "/healthz", "/metrics", "/nothing"):
        assert code(served.http.get(path, headers={"host": host})) == (421, "bad_host")


@pytest.mark.parametrize(
    "host",
    ["localhost", "LOCALHOST:1", "127.0.0.1:8080", "[::1]:80", "[::1]", "waits.example.com:443"],
)
def test_our_names_are_let_in(served: Running, host: str) -> None:
    assert served.http.get("/healthz", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://localhost:1"},
        {"origin": "http://evil.example", "sec-fetch-site": "same-origin"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
def test_a_page_of_another_origin_cannot_write(served: Running, headers: dict[str, str]) -> None:
    name = "/v1/subscriptions/x"
    for method, path in (("POST", "/v1/signals"), ("PUT", name), ("DELETE", name)):
        answer = served.http.request(method, path, json={"key": "k", "offset": 1}, headers=headers)
        assert code(answer) == (403, "bad_origin")


def test_our_own_page_can_write(served: Running) -> None:
    headers = {"origin": served.url, "sec-fetch-site": "same-origin"}
    answer = served.http.post("/v1/signals", json={"key": "o", "offset": 1}, headers=headers)
    assert answer.status_code == 201


# What a client may cost.


def test_half_a_request_does_not_hold_the_service(tmp_path: Path) -> None:
    limits = Limits(header_ms=2_000, body_ms=2_000)  # longer than a step of this test takes
    with running(tmp_path, limits=limits) as served:
        halves = [
            (b"POST /v1/signals HTTP/1.1\r\nHost: loc", "header_timeout"),
            (
                b"POST /v1/signals HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json"
                b'\r\nContent-Length: 50\r\n\r\n{"key"',
                "body_timeout",
            ),
        ]
        open_connections = []
        for half, _ in halves:
            connection = served.connect()
            connection.sendall(half)
            open_connections.append(connection)
        served.signal("others")  # are served meanwhile
        for connection, (_, expected) in zip(open_connections, halves, strict=True):
            with connection:
                received = read_all(connection)
                assert received.startswith(b"HTTP/1.1 408 ")
                assert json.loads(received.partition(b"\r\n\r\n")[2])["error"]["code"] == expected
        until(lambda: no_connections(served), "an end of the connections")


def test_a_byte_now_and_then_does_not_hold_a_connection(tmp_path: Path) -> None:
    with running(tmp_path, limits=Limits(header_ms=300)) as served, served.connect() as connection:
        connection.settimeout(0.02)
        received = b""
        for byte in b"GET /healthz HTTP/1.1\r\nX: " + b"x" * 10_000:
            try:
                connection.sendall(bytes([byte]))
                part = connection.recv(1000)
            except TimeoutError:
                continue
            except ConnectionError:
                break
            if not part:
                break
            received += part
        else:
            pytest.fail("the connection is still open")
        assert not received or b"header_timeout" in received


def test_a_connection_that_says_nothing_is_closed(tmp_path: Path) -> None:
    with running(tmp_path, limits=Limits(header_ms=100)) as served, served.connect() as connection:
        assert read_all(connection) == b""


def test_more_connections_than_allowed_are_refused(tmp_path: Path) -> None:
    with running(tmp_path, limits=Limits(connections=2)) as served:
        assert served.http.get("/healthz").status_code == 200  # and stays open
        with served.connect() as second, served.connect() as third:
            until(lambda: served.service.connections() == 3, "three connections")
            ask = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
            third.sendall(ask)
            received = read_all(third)
            assert received.startswith(b"HTTP/1.1 503 ")
            assert b'"too_many_connections"' in received
            second.sendall(ask)
            assert second.recv(1000).startswith(b"HTTP/1.1 200 ")
        assert served.http.get("/healthz").status_code == 200


def test_large_bodies_are_bounded_together(tmp_path: Path) -> None:
    limits = Limits(body_bytes=300_000, bodies_bytes=350_000)
    signals = json.dumps([{"key": "k" * 900, "offset": n} for n in range(250)])
    content = {"content-type": "application/json"}
    with running(tmp_path, limits=limits) as served, served.connect() as connection:
        connection.sendall(
            b"POST /v1/signals HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: 200000\r\n\r\n["
        )
        until(lambda: served.service.reserved_bytes, "half of a large body")

        def parts() -> Iterator[bytes]:
            for at in range(0, len(signals), 50_000):
                yield signals[at : at + 50_000].encode()

        for body in (signals, parts()):
            answer = served.http.post("/v1/signals", content=body, headers=content)
            assert code(answer) == (503, "busy")
        served.signal("small ones")  # are taken
        connection.close()
        until(lambda: not served.service.reserved_bytes, "room")
        for body in (signals, parts()):
            answer = served.http.post("/v1/signals", content=body, headers=content)
            assert answer.status_code == 200
        assert served.service.reserved_bytes == 0


@pytest.mark.parametrize(
    "nonsense",
    [
        b"\x00\x01\x02\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost localhost\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # TLS
    ],
)
def test_what_is_no_http_is_answered_with_400(served: Running, nonsense: bytes) -> None:
    with served.connect() as connection:
        connection.sendall(nonsense)
        received = read_all(connection)
    assert received.startswith(b"HTTP/1.1 400 ")
    assert json.loads(received.partition(b"\r\n\r\n")[2])["error"]["code"] == "bad_request"


def test_endless_headers_are_refused(served: Running) -> None:
    with served.connect() as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 100_000)
        received = read_all(connection)
    assert received.startswith(b"HTTP/1.1 431 ")
    assert b'"header_too_large"' in received


def test_the_parser_in_python_is_guarded_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sojourn.service.server

    limits = Limits(header_ms=200, body_ms=200)
    made = type("Connection", (GuardedH11,), {"limits": limits})
    monkeypatch.setattr(sojourn.service.server, "protocol_for", lambda _: made)
    with running(tmp_path, limits=limits) as served:
        served.signal("h11")
        for half in (
            b"GET /healthz HTTP/1.1\r\nHo",
            b"POST /v1/signals HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{",
        ):
            with served.connect() as connection:
                connection.sendall(half)
                assert read_all(connection).startswith(b"HTTP/1.1 408 ")
        with served.connect() as connection:
            connection.sendall(b"\x00\r\n\r\n")
            assert read_all(connection).startswith(b"HTTP/1.1 400 ")


def test_half_a_request_behind_a_long_poll_is_not_taken_for_its_answer(tmp_path: Path) -> None:
    with running(tmp_path, limits=Limits(header_ms=200)) as served:
        served.submit("w")
        with served.connect() as connection:
            connection.sendall(
                b"GET /v1/operations/w?wait_ms=60000 HTTP/1.1\r\nHost: localhost\r\n\r\nGET /he"
            )
            assert read_all(connection) == b""
        until(lambda: not len(served.service.polls), "an end of waiting")


def test_requests_one_after_the_other_on_a_connection_are_answered_in_order(
    served: Running,
) -> None:
    ask = b"GET /v1/keys/%d HTTP/1.1\r\nHost: localhost\r\n%b\r\n"
    with served.connect() as connection:
        requests = [ask % (n, b"" if n < 9 else b"Connection: close\r\n") for n in range(10)]
        connection.sendall(b"".join(requests))
        received = read_all(connection)
    at = [received.index(b'"key":"%d"' % n) for n in range(10)]
    assert at == sorted(at)


# Ends.


def test_long_polls_and_streams_are_answered_when_the_service_stops(tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as elsewhere:
        with running(tmp_path) as served, running(tmp_path / "other") as other:
            served.submit("w")
            with httpx.Client(base_url=served.url, timeout=LONG_S) as http:
                polls = [
                    elsewhere.submit(http.get, "/v1/operations/w?wait_ms=60000"),
                    elsewhere.submit(http.get, "/v1/outcomes?wait_ms=60000"),
                    elsewhere.submit(http.get, "/v1/outcomes/stream"),
                ]
                until(lambda: len(served.service.polls) == 2 and served.service.streams, "waiters")
                served.call(served.server.stop)
                received = [poll.result(LONG_S) for poll in polls]
            assert other.http.get("/healthz").status_code == 200
        assert [each.status_code for each in received] == [200] * 3
        assert received[0].json()["status"] == "waiting"
        assert received[1].json()["outcomes"] == []


def test_half_a_body_does_not_hold_the_end(tmp_path: Path) -> None:
    with closing(socket.socket()) as connection:
        with running(tmp_path) as served:
            connection.settimeout(LONG_S)
            connection.connect(("127.0.0.1", served.port))
            connection.sendall(
                b"POST /v1/signals HTTP/1.1\r\nHost: localhost\r\n"
                b"Content-Type: application/json\r\nContent-Length: 50\r\n\r\n{"
            )
            until(lambda: served.service.connections(), "a connection")
            served.http.get("/healthz")
        assert b'"closing"' in read_all(connection)


# Bugs.


def test_a_bug_is_a_500_with_an_id_that_is_in_the_log(
    served: Running, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(_: object) -> None:
        raise ZeroDivisionError("the secret of the bug")

    monkeypatch.setattr(served.service, "find", broken)
    answer = served.http.get("/v1/operations/x")
    assert code(answer) == (500, "internal")
    assert "secret" not in answer.text
    assert "Traceback" not in answer.text
    assert answer.json()["error"]["id"] in caplog.text
    assert "the secret of the bug" in caplog.text


def test_answers_are_not_stored_nor_taken_for_pages(served: Running) -> None:
    for path in ("/v1/outcomes", "/nothing", "/healthz"):
        headers = served.http.get(path).headers
        assert headers["content-type"] == "application/json"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert "server" not in headers


@pytest.mark.parametrize("method", ["TRACE", "OPTIONS", "PATCH", "DELETE", "PUT", "BREW"])
def test_other_methods_are_refused_with_those_that_go(served: Running, method: str) -> None:
    answer = served.http.request(method, "/v1/operations")
    if method == "BREW" and answer.status_code == 400:
        return  # the parser knows its methods
    assert code(answer) == (405, "method_not_allowed")
    assert answer.headers["allow"] == "GET, HEAD, POST"


def test_head_is_get_without_the_body(served: Running) -> None:
    answer = served.http.head("/v1/outcomes")
    assert (answer.status_code, answer.content) == (200, b"")
    assert int(answer.headers["content-length"]) > 0


def no_connections(served: Running) -> bool:
    """But for the client's own."""
    return served.service.connections() <= 1


def read_all(connection: socket.socket) -> bytes:
    parts = []
    while True:
        try:
            part = connection.recv(65536)
        except ConnectionResetError:
            break
        if not part:
            break
        parts.append(part)
    return b"".join(parts)
