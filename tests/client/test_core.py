"""The client's core: what it sends, when it sends again, and what it makes of replies."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from sojourn.client.address import Address
from sojourn.client.calls import Call, NoReply, Reply
from sojourn.client.verbs import BYTES_MOST, PAGE_MOST, ROWS_MOST, WAIT_AT_ONCE_MS
from sojourn.errors import (
    Full,
    IdTaken,
    Missed,
    NotWritten,
    OutOfRange,
    ServiceError,
    SojournError,
    Unauthorized,
    Unreachable,
    WrongType,
)
from tests.client.steps import (
    Play,
    accepted,
    answers,
    error,
    operation,
    page,
    refused,
    reply,
)

ROW = ("a", [("k", 1)], 10)


# Where the service is.


def test_the_token_is_in_no_text_of_the_address() -> None:
    address = Address("https://waits.test/base/", token="s3cret")
    assert address.headers["authorization"] == "Bearer s3cret"
    assert repr(address) == "https://waits.test/base"
    assert "s3cret" not in repr(vars(address).keys()) + str(address)


def test_url_and_token_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOJOURN_URL", "http://elsewhere:9")
    monkeypatch.setenv("SOJOURN_TOKEN", "theirs\n")
    assert Address().url == "http://elsewhere:9"
    assert Address().headers["authorization"] == "Bearer theirs"
    assert Address("http://here:1", "mine").headers["authorization"] == "Bearer mine"
    monkeypatch.delenv("SOJOURN_URL")
    monkeypatch.delenv("SOJOURN_TOKEN")
    assert Address().url == "http://127.0.0.1:8080"
    assert "authorization" not in Address().headers


@pytest.mark.parametrize(
    "url",
    ["waits.test", "ftp://waits.test", "http://", "http://h:x", "http://h/?a=1", "http://h#a"],
)
def test_an_url_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(OutOfRange, match="url"):
        Address(url)


def test_a_secret_in_an_url_is_refused_and_not_repeated() -> None:
    with pytest.raises(OutOfRange) as caught:
        Address("http://user:hush@waits.test")
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize("token", ["two words", "line\nbreak", "köln"])
def test_a_token_that_no_header_can_have_is_refused_and_not_repeated(token: str) -> None:
    with pytest.raises(OutOfRange) as caught:
        Address("http://h", token)
    assert token not in str(caught.value)


@pytest.mark.parametrize(
    ("id", "path"),
    [
        ("a/b c", "/base/v1/operations/a%2Fb%20c"),
        ("..", "/base/v1/operations/%2E%2E"),
        ("50%?#", "/base/v1/operations/50%25%3F%23"),
        ("ü", "/base/v1/operations/%C3%BC"),
    ],
)
def test_an_id_is_one_segment_of_the_path(id: str, path: str) -> None:
    play = Play(error(404, "not_found", found=id), url="http://h/base")
    assert play.take(play.verbs.get(id)) is None
    assert play.calls[0].path == path


# Sending again.


@pytest.mark.parametrize(
    "trouble",
    [refused(), error(503, "closing"), error(429, "too_many"), reply(502, {}), reply(504, {})],
    ids=["no connection", "closing", "too many", "bad gateway", "gateway timeout"],
)
def test_what_got_no_answer_is_sent_again_with_growing_pauses(trouble: Any) -> None:
    play = Play(*[trouble] * 6, accepted)
    (answer,) = play.take(play.verbs.submit_many([ROW]))
    assert answer.verdict == "accepted"
    assert len(play.calls) == 7
    assert len({call.body for call in play.calls}) == 1
    assert all(0.5 <= after / before <= 4 for before, after in zip(
        play.pauses_s, play.pauses_s[1:], strict=False))  # fmt: skip
    assert play.pauses_s[0] <= 0.05
    assert 0.8 <= play.pauses_s[5] <= 1.6


def test_clients_do_not_pause_in_step() -> None:
    play = Play(*[refused()] * 20, accepted, call_timeout_ms=200_000)
    play.take(play.verbs.submit_many([ROW]))
    long = play.pauses_s[10:]
    assert len(set(long)) == len(long)
    assert all(2.5 <= pause_s <= 5.0 for pause_s in long)


def test_a_pause_is_as_long_as_the_service_asks_for() -> None:
    play = Play(error(503, "closing", retry_after=3), accepted)
    play.take(play.verbs.submit_many([ROW]))
    assert 3.0 <= play.pauses_s[0] <= 3.1


def test_when_time_is_up_the_call_says_that_nobody_answered() -> None:
    play = Play(refused(), call_timeout_ms=10_000)
    with pytest.raises(Unreachable, match=r"http://waits.test:8080 gave no answer: connection ref"):
        play.take(play.verbs.submit_many([ROW]))
    assert 1_005.0 <= play.now_s <= 1_010.0
    assert 8 <= len(play.calls) <= 20


def test_a_call_that_may_take_less_than_the_pause_is_not_repeated() -> None:
    play = Play(error(503, "closing", retry_after=30), call_timeout_ms=5_000)
    with pytest.raises(Unreachable):
        play.take(play.verbs.submit_many([ROW]))
    assert len(play.calls) == 1
    assert play.pauses_s == []


def test_an_attempt_has_a_share_of_the_time_and_never_more_than_is_left() -> None:
    play = Play(refused(), call_timeout_ms=12_000)
    with pytest.raises(Unreachable):
        play.take(play.verbs.submit_many([ROW]))
    assert play.calls[0].timeout_s == 10.0
    assert 0 < play.calls[-1].timeout_s < 8


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (error(400, "bad_row"), OutOfRange),
        (error(401, "unauthorized"), Unauthorized),
        (error(403, "forbidden"), Unauthorized),
        (error(405, "method_not_allowed"), ServiceError),
        (error(500, "broken"), ServiceError),
        (reply(401, "who are you"), Unauthorized),
        (reply(307, {}, location="https://other.test"), ServiceError),
        (Reply(200, {}, b"<html>"), ServiceError),
        (Reply(404, {}, b"\xff"), ServiceError),
        (reply(200, []), ServiceError),
        (reply(200, {"answers": []}), ServiceError),
    ],
)
def test_what_is_no_use_repeating_is_not_repeated(answer: Reply, kind: type[SojournError]) -> None:
    play = Play(answer)
    with pytest.raises(kind):
        play.take(play.verbs.submit_many([ROW]))
    assert len(play.calls) == 1


def test_an_error_says_what_the_service_said_and_what_to_do() -> None:
    play = Play(error(403, "forbidden", "this token may read", do="use one that may write"))
    with pytest.raises(Unauthorized, match="this token may read; use one that may write"):
        play.take(play.verbs.submit_many([ROW]))
    with pytest.raises(ServiceError) as caught:
        Play(error(418, "teapot")).take(Play(error(418, "teapot")).verbs.get("a"))
    assert caught.value.code == "teapot"


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"outcomes": None, "last": 1, "answers": None, "progress": 1, "position": 1, "behind": 1},
        {"outcomes": [{}], "last": 1, "answers": [{}]},
        {"outcomes": [], "last": "1", "answers": [[]]},
        {"outcomes": [operation(status="gone")], "last": 1, "answers": [{"verdict": "x"}] * 2},
        {"outcomes": [operation(requires=[])], "last": 1, "answers": 5},
        {"outcomes": [operation(timeout_ms="x")], "last": 1, "answers": {"a": 1}},
    ],
)
def test_a_reply_that_makes_no_sense_is_the_services_error(value: dict[str, Any]) -> None:
    play = Play(reply(200, value))
    for steps in (
        play.verbs.submit_many([ROW]),
        play.verbs.get("a"),
        play.verbs.outcomes(0, 10, 0),
        play.verbs.more(0),
    ):
        with pytest.raises(ServiceError):
            play.take(steps)
    if not value:
        for more in (play.verbs.progress("k"), play.verbs.position("s"), play.verbs.behind("s")):
            with pytest.raises(ServiceError):
                play.take(more)


# Many rows.


def test_rows_are_cut_into_requests_and_answered_in_order() -> None:
    def number_each(call: Call) -> Reply:
        assert call.body is not None
        rows = json.loads(call.body)
        return answers(*({"verdict": "accepted", "at_ms": row["offset"]} for row in rows))

    play = Play(number_each)
    count = 2 * ROWS_MOST + 3
    got = play.take(play.verbs.signal_many(("k", n) for n in range(count)))
    assert [answer.at_ms for answer in got] == list(range(count))
    assert [len(rows) for rows in play.rows] == [ROWS_MOST, ROWS_MOST, 3]


def test_requests_are_cut_by_bytes_too() -> None:
    play = Play(accepted)
    payload = "x" * (BYTES_MOST // 3)
    rows = [(f"o{n}", [("k", 1)], 10, None, "", payload) for n in range(7)]
    assert len(play.take(play.verbs.submit_many(rows))) == 7
    assert [len(some) for some in play.rows] == [2, 2, 2, 1]
    assert all(len(call.body or b"") <= BYTES_MOST + 100 for call in play.calls)


def test_rows_are_read_as_they_are_sent() -> None:
    seen: list[int] = []

    def rows() -> Any:
        for n in range(2 * ROWS_MOST):
            seen.append(n)
            yield ("k", n)

    def look(call: Call) -> Reply:
        assert len(seen) <= ROWS_MOST + 1 or len(play.calls) > 1
        return accepted(call)

    play = Play(look)
    play.take(play.verbs.signal_many(rows()))


def test_no_rows_are_no_request() -> None:
    play = Play(accepted)
    assert play.take(play.verbs.submit_many([])) == []
    assert play.calls == []


def test_a_wrong_row_is_refused_without_asking_and_the_others_go_on() -> None:
    play = Play(accepted)
    got = play.take(play.verbs.signal_many([("k", 1), ("k", "two"), 3, ("k", 4)]))
    assert [answer.verdict for answer in got] == ["accepted", "refused", "refused", "accepted"]
    assert isinstance(got[1].error, WrongType)
    assert isinstance(got[2].error, WrongType)
    assert play.rows == [[{"key": "k", "offset": 1}, {"key": "k", "offset": 4}]]


def test_a_service_that_takes_less_at_once_gets_less_at_once() -> None:
    most = 300

    def few(call: Call) -> Reply:
        assert call.body is not None
        return accepted(call) if call.body.count(b"key") <= most else error(413, "too_many_rows")

    play = Play(few)
    got = play.take(play.verbs.signal_many(("k", n) for n in range(2_500)))
    assert {answer.verdict for answer in got} == {"accepted"}
    assert len(got) == 2_500
    sizes = [len(rows) for rows in play.rows]
    assert sizes == [1_000, 500, *[250] * 10]  # it has learnt


def test_a_row_that_is_too_large_by_itself_is_refused_by_itself() -> None:
    def small(call: Call) -> Reply:
        return error(413, "too_large") if b"xxx" in (call.body or b"") else accepted(call)

    play = Play(small)
    rows = [(f"o{n}", [("k", 1)], 10, None, "", "xxx" if n == 2 else "") for n in range(5)]
    got = play.take(play.verbs.submit_many(rows))
    assert [answer.verdict for answer in got] == ["accepted"] * 2 + ["refused"] + ["accepted"] * 2
    assert isinstance(got[2].error, OutOfRange)


def test_rows_for_which_there_is_no_room_are_sent_again() -> None:
    full = {"verdict": "refused", "error": {"code": "full", "message": "2 wait"}}
    taken = {"verdict": "accepted", "at_ms": 5}
    taken_id = {"verdict": "refused", "error": {"code": "id_taken", "message": "other"}}
    play = Play(answers(taken, full, taken_id, full), answers(full, taken), answers(taken))
    got = play.take(play.verbs.submit_many([(f"o{n}", [("k", 1)], 10) for n in range(4)]))
    assert [answer.verdict for answer in got] == ["accepted", "accepted", "refused", "accepted"]
    assert isinstance(got[2].error, IdTaken)
    assert [[row["id"] for row in rows] for rows in play.rows] == [
        ["o0", "o1", "o2", "o3"],
        ["o1", "o3"],
        ["o1"],
    ]


def test_a_service_that_stays_full_is_told_as_full() -> None:
    full = {"verdict": "refused", "error": {"code": "full", "message": "2 wait; try later"}}
    play = Play(answers(full), call_timeout_ms=10_000)
    (answer,) = play.take(play.verbs.submit_many([ROW]))
    assert isinstance(answer.error, Full)
    assert 1_005.0 <= play.now_s <= 1_010.0


def test_rows_that_a_full_disk_did_not_take_are_refused_as_such_at_once() -> None:
    play = Play(error(507, "not_written", "disk full"))
    got = play.take(play.verbs.submit_many([ROW, ROW]))
    assert [type(answer.error) for answer in got] == [NotWritten, NotWritten]
    assert len(play.calls) == 1


# What a row looks like.


def test_an_operation_on_its_way_out() -> None:
    play = Play(accepted)
    trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    rows = [
        ("a", iter([("k", 1), ("l", 2)]), 10),
        ("b", (("k", 1), ("l", 2)), 10, 1, "shop", "text", trace),
        ("c", [["k", 1]], 10, None, "", b"\x00\xff"),
        {"id": "d", "requires": [("k", 1)], "timeout_ms": 10, "class_": "shop"},
    ]
    play.take(play.verbs.submit_many(rows))
    both = [{"key": "k", "offset": 1}, {"key": "l", "offset": 2}]
    assert play.rows[0] == [
        {"id": "a", "requires": both, "timeout_ms": 10},
        {
            "id": "b",
            "requires": both,
            "timeout_ms": 10,
            "needed": 1,
            "class": "shop",
            "payload": "text",
            "traceparent": trace,
        },
        {"id": "c", "requires": both[:1], "timeout_ms": 10, "payload_base64": "AP8="},
        {"id": "d", "requires": both[:1], "timeout_ms": 10, "class": "shop"},
    ]


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        ((1, [("k", 1)], 10), WrongType),
        (("a", [], 10), OutOfRange),
        (("a", "k", 10), WrongType),
        (("a", [("k", 1)], -1), OutOfRange),
        (("a", [("k", 1)], 10, 2), OutOfRange),
        (("a", [("k", 2**63)], 10), OutOfRange),
        (("a", [("k", 1)]), WrongType),
        ({"id": "a"}, WrongType),
        ({"id": "a", "requires": [("k", 1)], "timeout_ms": 1, "klass": ""}, WrongType),
    ],
)
def test_rows_are_checked_by_the_rules_of_the_embedded_purgatory(
    row: Any, kind: type[SojournError]
) -> None:
    play = Play(accepted)
    (answer,) = play.take(play.verbs.submit_many([row]))
    assert isinstance(answer.error, kind)
    assert play.calls == []


# Waiting.


def test_a_long_wait_is_asked_for_in_pieces() -> None:
    wait_ms = 2 * WAIT_AT_ONCE_MS + 5_000
    waiting = reply(200, operation())
    play = Play()
    held = play.hold(WAIT_AT_ONCE_MS / 1000, waiting)
    ended = play.hold(1.0, reply(200, operation(status="expired", at_ms=11, number=1)))
    play._script = [held, held, ended]
    result = play.take(play.verbs.get("a", wait_ms))
    assert result is not None
    assert result.status == "expired"
    asked = [int(call.path.partition("wait_ms=")[2]) for call in play.calls]
    assert asked == [WAIT_AT_ONCE_MS, WAIT_AT_ONCE_MS, 5_000]
    assert play.calls[0].timeout_s == 10 + WAIT_AT_ONCE_MS / 1000


def test_a_wait_that_is_over_gives_the_operation_as_it_is() -> None:
    play = Play()
    play._script = [play.hold(2.0, reply(200, operation()))]
    result = play.take(play.verbs.get("a", 2_000))
    assert result is not None
    assert result.status == "waiting"
    assert len(play.calls) == 1


def test_a_service_that_answers_too_soon_is_not_asked_without_pause() -> None:
    play = Play(reply(200, operation()))
    play.take(play.verbs.get("a", 2_000))
    assert 1_001.9 <= play.now_s <= 1_002.1
    assert len(play.calls) < 100


def test_a_wait_that_was_cut_off_goes_on() -> None:
    play = Play(refused(), error(503, "closing"), page([1, 2]))
    outcomes = play.take(play.verbs.outcomes(0, 10, 60_000))
    assert [outcome.number for outcome in outcomes] == [1, 2]


def test_a_limit_beyond_a_page_is_read_in_pages() -> None:
    first = page(range(1, PAGE_MOST + 1), last=2 * PAGE_MOST + 3)
    second = page(range(PAGE_MOST + 1, 2 * PAGE_MOST + 1), last=2 * PAGE_MOST + 3)
    play = Play(first, second, page(range(2 * PAGE_MOST + 1, 2 * PAGE_MOST + 4)))
    outcomes = play.take(play.verbs.outcomes(0, 10 * PAGE_MOST, 0))
    assert [outcome.number for outcome in outcomes] == list(range(1, 2 * PAGE_MOST + 4))
    assert "after=1000&limit=1000" in play.calls[1].path


def test_outcomes_that_were_removed_are_missed_and_it_is_said_where_to_go_on() -> None:
    play = Play(error(410, "missed", "outcomes 3 to 9 were removed", after=9))
    with pytest.raises(Missed) as caught:
        play.take(play.verbs.outcomes(2, 10, 0))
    assert caught.value.last == 9


def test_a_path_that_the_service_does_not_have_is_not_an_unknown_id() -> None:
    play = Play(error(404, "not_found", found="/wrong/v1/operations/a"))
    with pytest.raises(ServiceError):
        play.take(play.verbs.get("a"))


# Following.


def test_following_waits_for_as_long_as_it_takes(caplog: pytest.LogCaptureFixture) -> None:
    script: list[Any] = [page([], last=5), page([], last=5)]
    script += [refused()] * 40 + [error(503, "closing")] * 5 + [page([6, 7])]
    play = Play(*script, call_timeout_ms=5_000)
    with caplog.at_level(logging.WARNING, "sojourn"):
        outcomes = play.take(play.verbs.more(5))
    assert [outcome.number for outcome in outcomes] == [6, 7]
    assert all("after=5&" in call.path for call in play.calls)
    assert "still trying, to go on after outcome 5" in caplog.text


def test_following_ends_where_the_token_is_refused_or_outcomes_are_gone() -> None:
    for answer, kind in [
        (error(401, "unauthorized"), Unauthorized),
        (error(410, "missed", after=9), Missed),
    ]:
        play = Play(answer)
        with pytest.raises(kind):
            play.take(play.verbs.more(5))
        assert len(play.calls) == 1


def test_a_feed_is_asked_at_once_where_it_ends_and_then_waited_for() -> None:
    play = Play(page([], last=5), page([], last=5), page([6]))
    play.take(play.verbs.more(5, is_first=True))
    assert ["wait_ms=" in call.path for call in play.calls] == [False, True, True]
    play = Play(*[refused()] * 40, page([], last=5), page([6]), call_timeout_ms=1)
    play.take(play.verbs.more(5))
    assert ["wait_ms=" in call.path for call in play.calls][-2:] == [False, True]  # it was away


def test_a_feed_that_ends_before_the_position_is_not_waited_for() -> None:
    play = Play(page([], last=90))
    with pytest.raises(OutOfRange, match="after is 100, and the last outcome"):
        play.take(play.verbs.more(100))


# Subscriptions.


def test_a_subscription_that_nobody_committed_is_at_the_beginning() -> None:
    play = Play(error(404, "not_found", found="mail"))
    assert play.take(play.verbs.position("mail")) == 0
    play = Play(reply(200, {"name": "mail", "position": 7}))
    assert play.take(play.verbs.position("mail")) == 7


def test_a_position_is_put() -> None:
    play = Play(reply(200, {"name": "a/b", "position": 7}))
    play.take(play.verbs.commit("a/b", 7))
    assert play.calls[0][:3] == ("PUT", "/v1/subscriptions/a%2Fb/position", b'{"number":7}')


def test_no_reply_keeps_what_happened() -> None:
    broken = ConnectionResetError("peer went away")
    play = Play(NoReply(broken), call_timeout_ms=1)
    with pytest.raises(Unreachable) as caught:
        play.take(play.verbs.progress("k"))
    assert caught.value.__cause__ is broken
