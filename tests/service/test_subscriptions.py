"""Named subscriptions: a position on disk, moved by whoever reads."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sojourn.service import Limits
from tests.service.harness import LONG_S, Running, running
from tests.until import until


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("subscriptions")) as one:
        yield one


def test_a_subscription_is_made_listed_moved_and_deleted(tmp_path: Path) -> None:
    with running(tmp_path) as served:
        http = served.http
        served.end("a", "b", "c")
        made = http.put("/v1/subscriptions/mail", json={})
        assert made.status_code == 201
        assert made.json() == {"name": "mail", "position": 0, "behind": 3, "webhook": None}
        assert http.put("/v1/subscriptions/mail", json={}).status_code == 200
        page = http.get("/v1/subscriptions/mail/outcomes", params={"limit": 2}).json()
        assert [each["number"] for each in page["outcomes"]] == [1, 2]
        moved = http.put("/v1/subscriptions/mail/position", json={"number": page["next"]})
        assert (moved.json()["position"], moved.json()["behind"]) == (2, 1)
        listed = http.get("/v1/subscriptions").json()["subscriptions"]
        assert [each["name"] for each in listed] == ["mail"]
        assert http.delete("/v1/subscriptions/mail").status_code == 200
        assert http.get("/v1/subscriptions/mail").status_code == 404
        assert http.delete("/v1/subscriptions/mail").status_code == 404
        assert http.get("/v1/subscriptions").json() == {"subscriptions": []}


def test_a_position_survives_a_restart_and_so_does_its_removal(tmp_path: Path) -> None:
    with running(tmp_path) as served:
        served.end("a", "b")
        for name in ("kept", "removed"):
            served.http.put(f"/v1/subscriptions/{name}/position", json={"number": 1})
        served.http.delete("/v1/subscriptions/removed")
    with running(tmp_path) as served:
        page = served.http.get("/v1/subscriptions/kept/outcomes").json()
        assert [each["number"] for each in page["outcomes"]] == [2]
        assert served.http.get("/v1/subscriptions/removed").status_code == 404


def test_reading_alone_moves_nothing(served: Running) -> None:
    served.end("again")
    for _ in range(2):
        page = served.http.get("/v1/subscriptions/reader/outcomes").json()
        assert page["outcomes"][-1]["id"] == "again"


def test_reading_waits_for_the_next_outcome(served: Running) -> None:
    served.end("before")
    last = served.http.get("/v1/outcomes?limit=1").json()["last"]
    served.http.put("/v1/subscriptions/waits/position", json={"number": last})
    with ThreadPoolExecutor(1) as elsewhere:
        poll = elsewhere.submit(
            served.http.get, "/v1/subscriptions/waits/outcomes", params={"wait_ms": 60_000}
        )
        until(lambda: len(served.service.polls), "a long poll")
        served.end("after")
        page = poll.result(LONG_S).json()
    assert [each["id"] for each in page["outcomes"]] == ["after"]


@pytest.mark.parametrize("number", [-1, 10**9, 2**70, "1", None, 1.5])
def test_a_position_beyond_the_feed_is_refused(served: Running, number: object) -> None:
    answer = served.http.put("/v1/subscriptions/x/position", json={"number": number})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "bad_row")
    assert served.http.get("/v1/subscriptions/x").status_code == 404


@pytest.mark.parametrize("name", ["a/b", "a%2Fb", "outcomes", "a/outcomes", "ü ?#", ".."])
def test_every_name_can_stand_in_a_path(served: Running, name: str) -> None:
    path = "/v1/subscriptions/" + "".join(f"%{byte:02X}" for byte in name.encode())
    assert served.http.put(path, json={}).json()["name"] == name
    assert served.http.get(path).json()["name"] == name
    assert "outcomes" in served.http.get(f"{path}/outcomes").json()
    assert served.http.delete(path).status_code == 200


def test_more_subscriptions_than_allowed_are_refused(tmp_path: Path) -> None:
    with running(tmp_path, limits=Limits(subscriptions=1)) as served:
        assert served.http.put("/v1/subscriptions/a", json={}).status_code == 201
        for path, body in (("b", {}), ("b/position", {"number": 0})):
            answer = served.http.put(f"/v1/subscriptions/{path}", json=body)
            assert answer.status_code == 429
            assert answer.json()["error"]["code"] == "too_many_subscriptions"
        assert served.http.put("/v1/subscriptions/a/position", json={"number": 0}).is_success
