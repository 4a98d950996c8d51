"""Webhooks: in order, signed, retried, bounded, and only to where they may go."""

from __future__ import annotations

import hmac
import json
import stat
import threading
import time
from collections.abc import Callable, Iterator
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from sojourn import ManualClock
from sojourn.durable import Purgatory
from sojourn.errors import BadFile, OutOfRange
from sojourn.service import deliveries
from sojourn.service.webhooks import AllowList, Webhook, Webhooks, sign
from tests.service.harness import LONG_S, Running, running
from tests.until import until

SECRET = "a secret of the receiver"
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Post:
    """What the receiver got."""

    def __init__(self, path: str, headers: dict[str, str], body: bytes) -> None:
        self.path = path
        self.headers = headers
        self.body = body
        self.numbers = [each["number"] for each in json.loads(body)["outcomes"]]


class Receiver:
    """A receiver of webhooks; `answer` says what it does with a post."""

    def __init__(self) -> None:
        self.posts: list[Post] = []
        self.taken: list[int] = []
        self.at_once = self.most_at_once = 0
        self.answer: Callable[[Post], int | tuple[int, dict[str, str]]] = lambda _: 204
        self._lock = threading.Lock()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                receiver._take(self)

            def log_message(self, *_: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}/hooks/"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    def _take(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers["content-length"]))
        post = Post(handler.path, {k.lower(): v for k, v in handler.headers.items()}, body)
        with self._lock:
            self.posts.append(post)
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        answer = self.answer(post)
        status, headers = answer if isinstance(answer, tuple) else (answer, {})
        with self._lock:
            self.at_once -= 1
            if 200 <= status < 300:
                self.taken += post.numbers
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.send_header("content-length", "0")
        handler.end_headers()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a receiver may be slow to answer: nothing is posted twice for that."""
    monkeypatch.setattr(deliveries, "_POST_S", 2 * LONG_S)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    one = Receiver()
    yield one
    one.close()


def hooked(tmp_path: Path, receiver: Receiver, **settings: Any) -> Any:
    settings = {"webhook_retry_ms": 20, "webhook_retry_most_ms": 50, **settings}
    return running(tmp_path, webhook_allow=(receiver.url,), **settings)


def hook(served: Running, receiver: Receiver, name: str = "mail", **more: Any) -> Any:
    webhook = {"url": receiver.url + name, "secret": SECRET, "per_second": 1000, **more}
    answer = served.http.put(f"/v1/subscriptions/{name}", json={"webhook": webhook})
    assert answer.is_success, answer.text
    return answer.json()


def state(served: Running, name: str = "mail") -> Any:
    return served.http.get(f"/v1/subscriptions/{name}").json()


def test_outcomes_are_posted_in_order_in_batches(tmp_path: Path, receiver: Receiver) -> None:
    with hooked(tmp_path, receiver) as served:
        served.end(*(f"before{n}" for n in range(20)))
        hook(served, receiver, batch=8)
        served.end(*(f"after{n}" for n in range(20)))
        until(lambda: len(receiver.taken) == 40, "forty outcomes")
        assert receiver.taken == list(range(1, 41))
        assert max(len(post.numbers) for post in receiver.posts) <= 8
        reply = until(lambda: (s := state(served))["webhook"]["status"] == "idle" and s, "the end")
        assert (reply["position"], reply["behind"], reply["webhook"]["delivered"]) == (40, 0, 40)
        assert SECRET not in json.dumps(reply)


def test_a_post_is_signed_and_says_what_it_is(tmp_path: Path, receiver: Receiver) -> None:
    with hooked(tmp_path, receiver) as served:
        hook(served, receiver)
        row = {
            "id": "order-7",
            "requires": [{"key": "now", "offset": 1}],
            "timeout_ms": 1000,
            "traceparent": TRACE,
            "payload": {"to": "ann"},
        }
        served.signal("now")
        served.http.post("/v1/operations", json=row).raise_for_status()
        until(lambda: receiver.taken, "a post")
    post = receiver.posts[0]
    assert post.path == "/hooks/mail"
    assert post.headers["sojourn-subscription"] == "mail"
    assert post.headers["sojourn-outcomes"] == "1-1"
    assert post.headers["traceparent"] == TRACE
    assert post.headers["content-type"] == "application/json"
    reply = json.loads(post.body)
    assert (reply["subscription"], reply["first"], reply["last"]) == ("mail", 1, 1)
    outcome = reply["outcomes"][0]
    assert (outcome["id"], outcome["payload"]) == ("order-7", {"to": "ann"})
    assert outcome["traceparent"] == TRACE
    given = dict(part.split("=") for part in post.headers["sojourn-signature"].split(","))
    message = given["t"].encode() + b"." + post.body
    assert given["v1"] == hmac.new(SECRET.encode(), message, sha256).hexdigest()
    assert sign(SECRET, int(given["t"]), post.body) == post.headers["sojourn-signature"]


def test_what_is_not_taken_is_tried_again_in_order(tmp_path: Path, receiver: Receiver) -> None:
    tries: dict[int, int] = {}

    def moody(post: Post) -> int:
        first = post.numbers[0]
        tries[first] = tries.get(first, 0) + 1
        return 204 if tries[first] > 2 else (500, 404)[tries[first] % 2]

    receiver.answer = moody
    with hooked(tmp_path, receiver) as served:
        hook(served, receiver, batch=3)
        served.end(*(f"e{n}" for n in range(7)))
        until(lambda: len(receiver.taken) >= 7, "seven outcomes")
        assert receiver.taken == list(range(1, 8))
        assert state(served)["webhook"]["failures"] >= 2


def test_a_redirect_is_not_followed(tmp_path: Path, receiver: Receiver) -> None:
    receiver.answer = lambda post: (
        (307, {"location": receiver.url.replace("/hooks/", "/secret/")})
        if len(receiver.posts) < 3
        else 200
    )
    with hooked(tmp_path, receiver) as served:
        hook(served, receiver)
        served.end("a")
        until(lambda: receiver.taken, "a post")
    assert {post.path for post in receiver.posts} == {"/hooks/mail"}


def test_a_receiver_that_is_down_is_waited_for_and_its_trouble_shown(
    tmp_path: Path, receiver: Receiver
) -> None:
    receiver.answer = lambda _: 503
    with hooked(tmp_path, receiver) as served:
        hook(served, receiver)
        served.end("a")
        until(lambda: len(receiver.posts) > 2, "tries")
        reply = until(lambda: (s := state(served))["webhook"]["last_error"] and s, "trouble")
        assert (reply["position"], reply["behind"]) == (0, 1)
        assert reply["webhook"]["status"] == "retrying"
        assert reply["webhook"]["last_status"] == 503
        assert reply["webhook"]["attempts"] >= 1
        receiver.answer = lambda _: 200
        until(lambda: state(served)["webhook"]["last_error"] is None, "the end of the trouble")
        assert state(served)["position"] == 1


def test_a_webhook_goes_on_after_a_restart(tmp_path: Path, receiver: Receiver) -> None:
    with hooked(tmp_path, receiver) as served:
        hook(served, receiver)
        served.end("a")
        until(lambda: state(served)["position"] == 1, "the position")
        receiver.answer = lambda _: 503
        served.end("b")
        until(lambda: receiver.posts[-1].numbers == [2], "a try")
    receiver.answer = lambda _: 204
    with hooked(tmp_path, receiver) as served:
        until(lambda: state(served)["position"] == 2, "the position")
    assert receiver.taken == [1, 2]


def test_a_url_that_is_no_longer_allowed_is_not_posted_to(
    tmp_path: Path, receiver: Receiver
) -> None:
    with hooked(tmp_path, receiver) as served:
        hook(served, receiver)
    with running(tmp_path, webhook_retry_ms=10) as served:
        served.end("a")
        until(lambda: state(served)["webhook"]["status"] == "blocked", "a refusal")
        assert "allow" in state(served)["webhook"]["last_error"]
    assert receiver.posts == []


def test_a_webhook_that_was_away_too_long_goes_on_behind_what_is_gone(
    tmp_path: Path, receiver: Receiver
) -> None:
    clock = ManualClock()
    with (
        Purgatory(tmp_path / "waits.db", clock=clock, retention_ms=1000) as purgatory,
        hooked(tmp_path, receiver, purgatory=purgatory) as served,
    ):
        hook(served, receiver)
        served.end("a")
        until(lambda: state(served)["position"] == 1, "the position")
        receiver.answer = lambda _: 503
        served.end("b", "c")
        clock.advance(5000)
        served.end("d")
        served.end("e")
        until(lambda: receiver.posts[-1].numbers[0] > 3, "a try after b and c are gone")
        receiver.answer = lambda _: 204
        reply = until(lambda: (s := state(served))["behind"] == 0 and s, "the end of the feed")
        assert reply["webhook"]["missed"] >= 2
        assert receiver.taken[-1] == 5
        assert receiver.taken == sorted(set(receiver.taken))


def test_posts_at_once_are_bounded(tmp_path: Path, receiver: Receiver) -> None:
    gate = threading.Event()

    def slow(_: Post) -> int:
        assert gate.wait(LONG_S)
        return 204

    receiver.answer = slow
    with hooked(tmp_path, receiver, webhook_concurrency=2) as served:
        for n in range(5):
            hook(served, receiver, f"s{n}")
        served.end("a")
        until(lambda: receiver.at_once == 2, "two posts")
        gate.set()
        until(lambda: len(receiver.taken) == 5, "five posts")
    assert receiver.most_at_once == 2


def test_the_rate_of_posts_is_bounded(tmp_path: Path, receiver: Receiver) -> None:
    with hooked(tmp_path, receiver) as served:
        hook(served, receiver, batch=1, per_second=2)
        began_s = time.monotonic()
        served.end(*(f"e{n}" for n in range(10)))
        until(lambda: len(receiver.taken) >= 2, "two posts")
        posts = len(receiver.posts)
        assert posts - 1 <= 2 * (time.monotonic() - began_s)


def test_a_webhook_is_replaced_and_removed(tmp_path: Path, receiver: Receiver) -> None:
    with hooked(tmp_path, receiver) as served:
        hook(served, receiver)
        served.http.put(
            "/v1/subscriptions/mail",
            json={"webhook": {"url": receiver.url + "other", "secret": SECRET}},
        ).raise_for_status()
        served.end("a")
        until(lambda: state(served)["position"] == 1, "the position")
        assert receiver.posts[-1].path == "/hooks/other"
        removed = served.http.put("/v1/subscriptions/mail", json={"webhook": None})
        assert removed.json()["webhook"] is None
        served.end("b")
        assert state(served)["behind"] == 1
        hook(served, receiver)
        served.http.delete("/v1/subscriptions/mail").raise_for_status()
        assert served.http.get("/v1/subscriptions/mail").status_code == 404
    assert json.loads((tmp_path / "webhooks.json").read_text())["webhooks"] == {}


def test_a_secret_is_made_if_none_is_given_and_shown_once(
    tmp_path: Path, receiver: Receiver
) -> None:
    with hooked(tmp_path, receiver) as served:
        reply = hook(served, receiver, secret=None)
        secret = reply["webhook"]["secret"]
        assert len(secret) == 64
        assert "secret" not in state(served)["webhook"]
        assert "secret" not in hook(served, receiver, secret=None)["webhook"]  # it stays
        served.end("a")
        until(lambda: receiver.taken, "a post")
        signature = receiver.posts[0].headers["sojourn-signature"]
        at = int(signature.partition(",")[0].removeprefix("t="))
        assert sign(secret, at, receiver.posts[0].body) == signature
    file = tmp_path / "webhooks.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_secret_of_the_service_is_used_for_those_without(
    tmp_path: Path, receiver: Receiver
) -> None:
    with hooked(tmp_path, receiver, webhook_secret=SECRET) as served:
        hook(served, receiver, secret=None)
        served.end("a")
        until(lambda: receiver.taken, "a post")
    assert SECRET not in (tmp_path / "webhooks.json").read_text()
    signature = receiver.posts[0].headers["sojourn-signature"]
    at = int(signature.partition(",")[0].removeprefix("t="))
    assert sign(SECRET, at, receiver.posts[0].body) == signature


@pytest.mark.parametrize(
    "webhook",
    [
        {},
        {"url": 17},
        {"batch": 0},
        {"batch": 1001},
        {"per_second": 0},
        {"per_second": -1},
        {"secret": "short"},
        {"other": 1},
    ],
)
def test_settings_that_mean_nothing_are_refused(
    tmp_path: Path, receiver: Receiver, webhook: dict[str, Any]
) -> None:
    with hooked(tmp_path, receiver) as served:
        given = {"url": receiver.url, **webhook} if webhook else {}
        answer = served.http.put("/v1/subscriptions/x", json={"webhook": given})
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "bad_row")
        assert served.http.get("/v1/subscriptions/x").status_code == 404


def test_a_url_that_is_not_allowed_is_refused(tmp_path: Path, receiver: Receiver) -> None:
    with hooked(tmp_path, receiver) as served:
        webhook = {"url": "http://169.254.169.254/latest/meta-data"}
        answer = served.http.put("/v1/subscriptions/x", json={"webhook": webhook})
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "not_allowed_url")
        assert served.http.get("/v1/subscriptions/x").status_code == 404


@pytest.mark.parametrize(
    ("url", "is_allowed"),
    [
        ("https://shop.example/hooks", True),
        ("https://shop.example/hooks/", True),
        ("https://shop.example/hooks/a?b=c", True),
        ("https://SHOP.example:443/hooks/a", True),
        ("http://local:8000", True),
        ("http://local:8000/anything", True),
        ("https://shop.example/hooksier", False),
        ("https://shop.example/", False),
        ("http://shop.example/hooks/", False),
        ("https://shop.example:444/hooks/", False),
        ("https://shop.example.evil/hooks/", False),
        ("https://evil@shop.example/hooks/", False),
        ("https://shop.example/hooks/../admin", False),
        ("https://shop.example/hooks/%2e%2e/admin", False),
        ("https://shop.example/hooks\\..\\admin", False),
        ("https://shop.example/hooks/#x", False),
        ("https://shop.example/hooks/ x", False),
        ("https://shop.example/hooks/\n", False),
        ("https://shop.example:x/hooks/", False),
        ("https:///hooks/", False),
        ("file:///hooks/", False),
        ("//shop.example/hooks/", False),
        ("https://[shop.example/hooks/", False),
        ("https://shop.example/hooks/" + "x" * 3000, False),
        ("", False),
    ],
)
def test_the_allow_list_compares_parts_not_letters(url: str, is_allowed: bool) -> None:
    allow_list = AllowList(["https://shop.example/hooks", "http://local:8000"])
    assert allow_list.allows(url) is is_allowed


@pytest.mark.parametrize("prefix", ["", "shop.example", "ftp://x/", "https://", "https://x/?a"])
def test_an_allow_list_that_means_nothing_is_refused(prefix: str) -> None:
    with pytest.raises(OutOfRange, match="--webhook-allow"):
        AllowList([prefix])


def test_the_file_of_webhooks_is_always_whole(tmp_path: Path) -> None:
    file = tmp_path / "webhooks.json"
    webhooks = Webhooks(file)
    webhooks.set("a", Webhook("https://x/", "a secret that is long enough"))
    (tmp_path / "webhooks.new").write_text("left over by a crash")
    webhooks.set("b", Webhook("https://y/"))
    assert sorted(Webhooks(file)) == ["a", "b"]
    file.write_text('{"version":')
    with pytest.raises(BadFile, match=r"webhooks\.json"):
        Webhooks(file)
