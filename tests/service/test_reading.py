"""Reading over HTTP: operations, keys, the feed by pages, long polls and event streams."""

from __future__ import annotations

import asyncio
import json
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from sojourn import ManualClock
from sojourn.durable import Operation, Purgatory
from sojourn.service import Limits
from sojourn.service.feed import Feed
from tests.service.harness import LONG_S, Running, running
from tests.until import until

AWKWARD = ["a/b", "a%2Fb", "50%?#&=+", "ü", " ", "..", ".", "a//b/", '"<&>', "\x00\n", "\U0001f600"]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("reading"), heartbeat_ms=50) as one:
        yield one


@pytest.fixture
def elsewhere() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as pool:
        yield pool


def path_of(text: str) -> str:
    return "".join(f"%{byte:02X}" for byte in text.encode())


def test_an_operation_that_waits_says_which_requirements_hold(served: Running) -> None:
    requires = [
        {"key": "r/a", "offset": 2},
        {"key": "r/b", "offset": 1},
        {"key": "r/c", "offset": 1},
    ]
    row = {"id": "r", "requires": requires, "timeout_ms": 600_000}
    served.http.post("/v1/operations", json=row).raise_for_status()
    served.signal("r/a", 1)
    served.signal("r/b", 7)
    reply = served.http.get("/v1/operations/r").json()
    assert [(each["progress"], each["holds"]) for each in reply["requires"]] == [
        (1, False),
        (7, True),
        (None, False),
    ]


def test_an_unknown_operation_is_not_found(served: Running) -> None:
    answer = served.http.get("/v1/operations/nobody")
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")
    assert answer.json()["error"]["found"] == "nobody"


@pytest.mark.parametrize("id", AWKWARD)
def test_every_id_can_stand_in_a_path(served: Running, id: str) -> None:
    served.submit(id, f"path/{id}")
    assert served.http.get(f"/v1/operations/{path_of(id)}").json()["id"] == id


@pytest.mark.parametrize("key", AWKWARD)
def test_every_key_can_stand_in_a_path(served: Running, key: str) -> None:
    key = f"{key}/key"
    served.submit(f"key of {key!r}", key, 10)
    served.signal(key, 3)
    reply = served.http.get(f"/v1/keys/{path_of(key)}").json()
    assert reply == {"key": key, "progress": 3, "waiting": 1}
    listed = served.http.get("/v1/operations", params={"key": key}).json()
    assert [each["id"] for each in listed["operations"]] == [f"key of {key!r}"]


def test_slashes_of_a_key_need_no_encoding(served: Running) -> None:
    served.signal("region/eu/1", 4)
    assert served.http.get("/v1/keys/region/eu/1").json()["progress"] == 4


def test_a_key_that_nothing_is_known_of_has_no_progress(served: Running) -> None:
    assert served.http.get("/v1/keys/unheard").json() == {
        "key": "unheard",
        "progress": None,
        "waiting": 0,
    }


def test_the_oldest_waits_are_listed(tmp_path: Path) -> None:
    clock = ManualClock()
    with (
        Purgatory(tmp_path / "waits.db", clock=clock) as purgatory,
        running(tmp_path, purgatory) as served,
    ):
        for id in "abc":
            served.submit(id)
            clock.advance(10)
        reply = served.http.get("/v1/operations", params={"limit": 2}).json()
        assert [each["id"] for each in reply["operations"]] == ["a", "b"]


def test_a_path_that_is_not_utf8_is_refused(served: Running) -> None:
    answer = served.http.get("/v1/operations/%FF")
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "bad_parameter")


@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=-1",
        "limit=x",
        "limit=",
        "limit=1.5",
        "limit=10001",
        "limit=1&limit=2",
        "wait_ms=60001",
        "after=-1",
        "after=1e3",
        "after=٣",
        "after=" + "9" * 30,
        "wait=1",
        "after",
        "&",
        "a=%FF",
        "x=" + "&y=" * 50,
    ],
)
def test_a_parameter_that_means_nothing_is_refused(served: Running, query: str) -> None:
    answer = served.http.get("/v1/outcomes?" + quote(query, safe="&=%"))
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "bad_parameter")
    assert answer.json()["error"]["do"]


# The feed.


def test_pages_of_the_feed_join_up(tmp_path: Path) -> None:
    with running(tmp_path) as served:
        served.end(*(f"e{n}" for n in range(25)))
        after, ids = 0, []
        while True:
            page = served.http.get("/v1/outcomes", params={"after": after, "limit": 10}).json()
            assert page["last"] == 25
            if not page["outcomes"]:
                assert page["next"] == after
                break
            ids += [each["id"] for each in page["outcomes"]]
            after = page["next"]
        assert sorted(ids) == sorted(f"e{n}" for n in range(25))
        assert after == 25


def test_outcomes_that_retention_removed_are_gone_with_410(tmp_path: Path) -> None:
    clock = ManualClock()
    with (
        Purgatory(tmp_path / "waits.db", clock=clock, retention_ms=1000) as purgatory,
        running(tmp_path, purgatory) as served,
    ):
        served.end("a", "b")
        clock.advance(5000)
        served.end("c")
        served.end("d")
        assert served.http.get("/v1/outcomes?after=0").status_code == 200
        answer = served.http.get("/v1/outcomes?after=1")
        assert (answer.status_code, answer.json()["error"]["code"]) == (410, "missed")
        after = answer.json()["error"]["after"]
        page = served.http.get("/v1/outcomes", params={"after": after}).json()
        assert [each["id"] for each in page["outcomes"]][-1] == "d"
        answer = served.http.get("/v1/outcomes/stream?after=1")
        assert (answer.status_code, answer.json()["error"]["code"]) == (410, "missed")


# Long polls.


def waits(served: Running, count: int = 1) -> None:
    until(lambda: served.call(lambda: len(served.service.polls)) >= count, "a long poll")


def test_a_long_poll_is_answered_when_the_operation_ends(
    served: Running, elsewhere: ThreadPoolExecutor
) -> None:
    served.submit("poll", "poll/k")
    polls: list[Future[httpx.Response]] = [
        elsewhere.submit(served.http.get, "/v1/operations/poll?wait_ms=60000") for _ in range(3)
    ]
    waits(served, 3)
    served.signal("poll/k")
    for poll in polls:
        assert poll.result(LONG_S).json()["status"] == "completed"
    until(lambda: not served.call(lambda: len(served.service.polls)), "an end of waiting")


def test_a_long_poll_of_an_ended_operation_is_answered_at_once(served: Running) -> None:
    served.end("poll-ended")
    reply = served.http.get("/v1/operations/poll-ended?wait_ms=60000").json()
    assert reply["status"] == "completed"


def test_a_long_poll_whose_time_runs_out_tells_the_operation_as_it_is(served: Running) -> None:
    served.submit("poll-on", "poll-on/k")
    reply = served.http.get("/v1/operations/poll-on?wait_ms=20").json()
    assert reply["status"] == "waiting"
    assert reply["requires"][0]["holds"] is False


def test_a_long_poll_of_the_feed_is_answered_by_the_next_outcome(
    served: Running, elsewhere: ThreadPoolExecutor
) -> None:
    last = served.http.get("/v1/outcomes?limit=1").json()["last"]
    poll = elsewhere.submit(
        served.http.get, "/v1/outcomes", params={"after": last, "wait_ms": 60_000}
    )
    waits(served)
    served.end("poll-feed")
    page = poll.result(LONG_S).json()
    assert [each["id"] for each in page["outcomes"]] == ["poll-feed"]
    assert page["next"] == last + 1


def test_no_end_is_lost_between_looking_and_waiting(
    served: Running, elsewhere: ThreadPoolExecutor
) -> None:
    """Polls and signals that race: every poll ends completed, none runs its time out."""
    for n in range(30):
        served.submit(f"race{n}", f"race{n}")
        poll = elsewhere.submit(served.http.get, f"/v1/operations/race{n}?wait_ms=60000")
        reply = elsewhere.submit(served.signal, f"race{n}")
        assert poll.result(LONG_S).json()["status"] == "completed"
        reply.result(LONG_S)


def test_a_client_that_goes_away_leaves_no_waiter(served: Running) -> None:
    served.submit("gone", "gone/k")
    with served.connect() as connection:
        connection.sendall(
            b"GET /v1/operations/gone?wait_ms=60000 HTTP/1.1\r\nHost: localhost\r\n\r\n"
        )
        waits(served)
    until(lambda: not served.call(lambda: len(served.service.polls)), "an end of waiting")


def test_more_waiters_than_allowed_are_refused(
    tmp_path: Path, elsewhere: ThreadPoolExecutor
) -> None:
    with running(tmp_path, limits=Limits(waiters=2)) as served:
        served.submit("w")
        polls = [elsewhere.submit(served.http.get, "/v1/operations/w?wait_ms=60000") for _ in "ab"]
        waits(served, 2)
        answer = served.http.get("/v1/operations/w?wait_ms=60000")
        assert (answer.status_code, answer.json()["error"]["code"]) == (429, "too_many_waiters")
        assert served.http.get("/v1/operations/w").status_code == 200
        served.signal()
        for poll in polls:
            assert poll.result(LONG_S).status_code == 200


# Event streams.


class Events:
    """Reads a stream's events."""

    def __init__(self, response: httpx.Response) -> None:
        self._lines = response.iter_lines()
        self.comments = 0

    def next(self) -> dict[str, str]:
        event: dict[str, str] = {}
        for line in self._lines:
            if line.startswith(":"):
                self.comments += 1
            elif line:
                name, _, value = line.partition(": ")
                event[name] = value
            elif "event" in event:
                return event
            else:
                event = {}
        raise EOFError


def test_a_stream_tells_what_was_and_what_comes(served: Running) -> None:
    served.end("stream-1")
    last = served.http.get("/v1/outcomes?limit=1").json()["last"]
    with served.http.stream("GET", f"/v1/outcomes/stream?after={last - 1}") as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        events = Events(response)
        event = events.next()
        assert (event["event"], event["id"]) == ("outcome", str(last))
        assert json.loads(event["data"])["id"] == "stream-1"
        served.end("stream-2")
        assert json.loads(events.next()["data"])["id"] == "stream-2"


def test_a_stream_goes_on_after_the_last_event_id(served: Running) -> None:
    served.end("id-1", "id-2")
    last = served.http.get("/v1/outcomes?limit=1").json()["last"]
    headers = {"last-event-id": str(last - 1)}
    with served.http.stream("GET", "/v1/outcomes/stream?after=0", headers=headers) as response:
        assert Events(response).next()["id"] == str(last)


def test_a_last_event_id_that_means_nothing_is_refused(served: Running) -> None:
    answer = served.http.get("/v1/outcomes/stream", headers={"last-event-id": "x"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "bad_parameter")


def test_a_silent_stream_has_heartbeats(served: Running) -> None:
    last = served.http.get("/v1/outcomes?limit=1").json()["last"]
    with served.http.stream("GET", f"/v1/outcomes/stream?after={last}") as response:
        lines = (line for line in response.iter_lines() if line.startswith(":"))
        assert [next(lines), next(lines)] == [": still here"] * 2


def test_more_streams_than_allowed_are_refused(tmp_path: Path) -> None:
    with running(tmp_path, limits=Limits(streams=1)) as served:
        with served.http.stream("GET", "/v1/outcomes/stream"):
            until(lambda: served.service.streams, "a stream")
            answer = served.http.get("/v1/outcomes/stream")
            assert (answer.status_code, answer.json()["error"]["code"]) == (429, "too_many_streams")
        until(lambda: not served.service.streams, "an end of the stream")


def test_a_subscriber_that_never_reads_is_disconnected(tmp_path: Path) -> None:
    """It gets what its socket holds, and then nothing for too long."""
    with running(tmp_path, heartbeat_ms=50, limits=Limits(write_ms=200)) as served:
        served.signal("now")
        rows = [
            {
                "id": str(n),
                "requires": [{"key": "now", "offset": 1}],
                "timeout_ms": 1000,
                "payload": "x" * 50_000,
            }
            for n in range(200)
        ]
        with served.connect() as connection:
            connection.sendall(b"GET /v1/outcomes/stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
            until(lambda: served.service.streams, "a stream")
            served.http.post("/v1/operations", json=rows).raise_for_status()
            until(lambda: not served.service.streams, "an end of the stream")


def test_what_is_kept_for_readers_that_do_not_read_is_bounded() -> None:
    class Waits:
        last_outcome = 0

        def read(self, after: int, until: int, limit: int) -> list[Operation]:
            end = min(until, after + limit)
            return [outcome(number) for number in range(after + 1, end + 1)]

    def outcome(number: int) -> Operation:
        return Operation(
            str(number), [("k", 1)], 1, payload=payload, status="completed", number=number, at_ms=1
        )

    async def follow(feed: Feed, waits: Waits, after: int) -> int:
        while reply := await feed.page(after, 300):
            assert [number for number, _ in reply] == list(range(after + 1, reply[-1][0] + 1))
            after = reply[-1][0]
        return after

    payload = "x" * 10_000
    waits = Waits()
    with ThreadPoolExecutor(1) as executor:
        feed = Feed(waits, executor)  # type: ignore[arg-type]
        with feed.reading():
            tracemalloc.start()
            try:
                for at in range(0, 5000, 50):  # 50 MB
                    waits.last_outcome = at + 50
                    feed.on_outcomes([outcome(at + n) for n in range(1, 51)])
                held, _ = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
            assert held < 20 << 20, f"{held >> 20} MiB"
            assert asyncio.run(follow(feed, waits, 0)) == 5000  # from disk, then from memory
            waits.last_outcome = 20_000
            feed.on_outcomes([outcome(n) for n in range(5001, 20_001)])  # too many at once
            assert asyncio.run(follow(feed, waits, 4990)) == 20_000
        feed.on_outcomes([outcome(20_001)])
        assert not feed._fresh
