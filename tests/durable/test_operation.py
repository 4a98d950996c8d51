"""What an operation says of itself: payloads and traces come back as they were given."""

from __future__ import annotations

import pickle
import random
from typing import TYPE_CHECKING, Any

import pytest

from sojourn import ManualClock
from sojourn.durable import Operation, Purgatory
from sojourn.durable.submissions import checked_submission, is_same, read_submission
from sojourn.errors import IdTaken, OutOfRange, WrongType
from tests.durable.world import connect_unsynced

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
OTHER_TRACE = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-00"


@pytest.fixture
def waits(path: Path) -> Iterator[Purgatory]:
    with Purgatory(path, clock=ManualClock(1_000), connect=connect_unsynced) as waits:
        yield waits


def submitted(waits: Purgatory, *arguments: Any, **options: Any) -> Operation:
    operation = waits.submit(*arguments, **options).operation
    assert operation is not None
    return operation


def test_an_operation_says_all_that_was_submitted(waits: Purgatory) -> None:
    operation = submitted(
        waits, "å-7", [("zwölf", 12), ("k", -5)], 500, 1, "büro", {"to": ["ann"]}, TRACE
    )
    assert operation.id == "å-7"
    assert operation.status == "waiting"
    assert (operation.submitted_ms, operation.timeout_ms) == (1_000, 500)
    assert operation.deadline_ms == 1_500
    assert operation.requires == (("zwölf", 12), ("k", -5))
    assert operation.needed == 1
    assert operation.class_ == "büro"
    assert operation.payload == {"to": ["ann"]}
    assert operation.traceparent == TRACE
    waiting = (operation.at_ms, operation.by_key, operation.number, operation.waited_ms)
    assert waiting == (None, None, None, None)
    waits.signal("k", -5)
    ended = waits.get("å-7")
    assert ended is not None
    assert (ended.status, ended.by_key, ended.number) == ("completed", "k", 1)
    assert ended.at_ms == 1_000 + ended.waited_ms  # type: ignore[operator]
    assert ended.traceparent == TRACE


def test_operations_are_equal_by_their_fields(waits: Purgatory) -> None:
    operation = submitted(waits, "a", [("k", 1)], 500, payload="x")
    again = waits.get("a")
    assert operation == again
    assert hash(operation) == hash(again)
    assert pickle.loads(pickle.dumps(operation)) == operation
    made = Operation("a", [("k", 1)], 500, payload="x", submitted_ms=1_000)
    assert made == operation
    ended = Operation(
        "a", [("k", 1)], 500, payload="x", status="expired", submitted_ms=1, at_ms=501, number=7
    )
    assert ended != operation
    assert (ended.at_ms, ended.number, ended.waited_ms) == (501, 7, 500)
    assert repr(operation) == (
        "Operation(id='a', status='waiting', submitted_ms=1000, deadline_ms=1500, timeout_ms=500, "
        "at_ms=None, by_key=None, class_='', payload='x', number=None, requires=(('k', 1),), "
        "needed=1, traceparent=None)"
    )
    with pytest.raises(OutOfRange, match="status must be one of"):
        Operation("a", [("k", 1)], 500, status="late")


PAYLOADS: list[Any] = [
    None, b"", b"\x00\xff", "", "text", "nicht ASCII: ß", 0, -1, 2**70, 1.5, 1e300, -0.0, True,
    False, [], {}, [None], {"a": {"b": [1, "2", None, True, 1.0]}, "": "é"}, [[[[]]]], "null",
]  # fmt: skip


def test_a_payload_comes_back_as_it_was_given_also_after_a_restart(path: Path) -> None:
    clock = ManualClock()
    with Purgatory(path, clock=clock, connect=connect_unsynced) as waits:
        for n, payload in enumerate(PAYLOADS):
            waits.submit(f"{n}", [("k", 1)], 10_000, payload=payload)
        waits.signal("k", 1)
        for n, payload in enumerate(PAYLOADS):
            waits.submit(f"waiting-{n}", [("k", 2)], 10_000, payload=payload)
    with Purgatory(path, clock=clock, connect=connect_unsynced) as waits:
        for kind in ("", "waiting-"):
            for n, payload in enumerate(PAYLOADS):
                operation = waits.get(f"{kind}{n}")
                assert operation is not None
                assert repr(operation.payload) == repr(payload)
                assert type(operation.payload) is type(payload)


def deep(levels: int) -> Any:
    payload: Any = []
    for _ in range(levels - 1):
        payload = [payload]
    return payload


def cyclic() -> Any:
    payload: dict[str, Any] = {}
    payload["self"] = payload
    return payload


def wide() -> Any:
    """Small in memory, and endless on paper."""
    payload: Any = [1]
    for _ in range(60):
        payload = [payload, payload]
    return payload


@pytest.mark.parametrize(
    ("payload", "error", "says"),
    [
        (float("nan"), OutOfRange, "JSON has no nan"),
        ([float("-inf")], OutOfRange, "JSON has no -inf"),
        ({1: "one"}, WrongType, "names in a dictionary must be str, got 1"),
        ((1, 2), WrongType, "got tuple"),
        ([{"a": {1}}], WrongType, "got set"),
        ([b"x"], WrongType, "got bytes"),
        (object(), WrongType, "got object"),
        (deep(101), OutOfRange, "at most 100 lists and dictionaries in each other"),
        (cyclic(), OutOfRange, "at most 100 lists and dictionaries in each other"),
        (wide(), OutOfRange, "more values than that"),
        (["x" * (1 << 20)], OutOfRange, "payload must have at most 1048576 bytes"),
        ("\ud800", OutOfRange, "payload cannot be written as UTF-8"),
        ({"\ud800": 1}, OutOfRange, "payload cannot be written as UTF-8"),
        ([10**5_000], OutOfRange, "payload cannot be written as JSON"),
    ],
)
def test_what_would_not_come_back_as_it_was_is_refused(
    waits: Purgatory, payload: Any, error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        waits.submit("a", [("k", 1)], 1, payload=payload)
    assert len(waits) == 0


def test_lists_may_be_a_hundred_deep(waits: Purgatory) -> None:
    assert submitted(waits, "a", [("k", 1)], 1, payload=deep(100)).payload == deep(100)


@pytest.mark.parametrize("ended", [False, True])
def test_the_order_of_names_does_not_make_another_payload(waits: Purgatory, ended: bool) -> None:
    waits.submit("a", [("k", 1)], 100, payload={"x": 1, "y": [{"p": 1, "q": 2}]})
    if ended:
        waits.cancel("a")
    again = waits.submit("a", [("k", 1)], 100, payload={"y": [{"q": 2, "p": 1}], "x": 1})
    assert again.verdict == "duplicate"
    assert again.operation is not None
    assert list(again.operation.payload) == ["x", "y"]  # as it was given first
    for other in ({"x": 1}, {"x": 1.0, "y": [{"p": 1, "q": 2}]}, {"x": True, "y": []}, "x"):
        with pytest.raises(IdTaken):
            waits.submit("a", [("k", 1)], 100, payload=other)


@pytest.mark.parametrize("ended", [False, True])
def test_a_trace_does_not_make_another_operation_and_the_first_one_stays(
    waits: Purgatory, ended: bool
) -> None:
    waits.submit("a", [("k", 1)], 100, traceparent=TRACE)
    waits.submit("b", [("k", 1)], 100)
    if ended:
        waits.cancel_many(["a", "b"])
    for trace in (TRACE, OTHER_TRACE, None):
        again = waits.submit("a", [("k", 1)], 100, traceparent=trace)
        assert again.verdict == "duplicate"
        assert again.operation is not None
        assert again.operation.traceparent == TRACE
        assert waits.submit("b", [("k", 1)], 100, traceparent=trace).verdict == "duplicate"
    with pytest.raises(IdTaken):
        waits.submit("a", [("k", 2)], 100, traceparent=TRACE)


@pytest.mark.parametrize(
    "trace",
    [
        "",
        TRACE.upper(),
        TRACE[:-1],
        TRACE + "\n",
        "01" + TRACE[2:],
        f"00-{'0' * 32}-b7ad6b7169203331-01",
        f"00-0af7651916cd43dd8448eb211c80319c-{'0' * 16}-01",
        7,
    ],
)
def test_a_trace_that_is_none_is_refused(waits: Purgatory, trace: Any) -> None:
    with pytest.raises((OutOfRange, WrongType), match="traceparent must be"):
        waits.submit("a", [("k", 1)], 1, traceparent=trace)


def test_contents_are_the_same_only_if_everything_but_the_trace_is() -> None:
    """Every field has a say, whichever other one it could be mistaken for."""
    rng = random.Random(0)

    def draw() -> dict[str, Any]:
        return {
            "id": rng.choice(["a", "ab"]),
            "requires": [(rng.choice(["k", "ck"]), rng.choice([1, 2])) for _ in range(2)],
            "timeout_ms": rng.choice([1, 256]),
            "needed": rng.choice([1, 2]),
            "class_": rng.choice(["", "b"]),
            "payload": rng.choice([None, "", b"", "b", b"b", [1], [1.0], {"a": 1, "b": 2}]),
        }

    same = 0
    for _ in range(3_000):
        one, other = draw(), draw()
        if rng.random() < 0.3:
            other = dict(one)
        wanted = repr(one) == repr(other)
        same += wanted
        contents = [
            checked_submission(**row, traceparent=rng.choice([None, TRACE, OTHER_TRACE])).content
            for row in (one, other)
        ]
        assert is_same(*contents) == wanted, (one, other)
        read = read_submission(contents[0])
        flat = [item for requirement in one["requires"] for item in requirement]
        assert (read.id, list(read.requires), read.needed) == (one["id"], flat, one["needed"])
    assert same > 500


def test_a_content_is_laid_out_as_the_page_on_the_format_says() -> None:
    content = checked_submission("id", [("key", 258)], 3, 1, "c", "pay", TRACE).content
    assert content.hex(" ") == (
        "19 02 01 00 01 00 02 00 01 00 03 00 00 00 03 00 00 00 00 00 00 00 "
        "69 64 63 70 61 79 "
        "02 01 00 00 00 00 00 00 03 00 6b 65 79 "
        "0a f7 65 19 16 cd 43 dd 84 48 eb 21 1c 80 31 9c b7 ad 6b 71 69 20 33 31 01"
    )
