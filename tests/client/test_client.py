"""The same verbs, the same answers: one suite over the embedded purgatory and both clients."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import socket
import threading
from functools import partial
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from sojourn import ManualClock
from sojourn.client import AsyncClient, Client
from sojourn.client.calls import Retries
from sojourn.client.pool import AsyncPool, Pool
from sojourn.durable import Purgatory
from sojourn.errors import (
    Closed,
    Full,
    IdTaken,
    Missed,
    OutOfRange,
    SojournError,
    Unauthorized,
    Unreachable,
    WrongType,
)
from sojourn.service.tokens import Tokens
from tests import ids
from tests.client.service import WAIT_S, Blocking, ServiceThread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

START_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
FACES = ["embedded", "threads", "asyncio", "asyncio, gathering"]

Open = Any  # a function that opens a purgatory, and what talks to it


def connect(face: str, url: str, **options: Any) -> Any:
    """A client of that kind, with blocking verbs."""
    options = {"call_timeout_ms": int(WAIT_S * 1000), **options}
    if face == "threads":
        return Client(url, **options)
    return Blocking(lambda: AsyncClient(url, gather=face == "asyncio, gathering", **options))


class World:
    """A purgatory on a hand-moved clock, and somebody who talks to it."""

    def __init__(self, face: str, folder: Path, client: dict[str, Any], **options: Any) -> None:
        self.clock = ManualClock(START_MS)
        self.folder = folder
        folder.mkdir(exist_ok=True)
        self.purgatory = Purgatory(folder / "waits.db", clock=self.clock, **options)
        self._service: ServiceThread | None = None
        self.waits: Any = self.purgatory
        if face != "embedded":
            self._service = ServiceThread(folder, self.purgatory)
            self.waits = connect(face, self._service.url, **client)

    def close(self) -> None:
        if self._service is not None:
            self.waits.close()
            self._service.close()
        self.purgatory.close()


@pytest.fixture
def worlds(tmp_path: Path) -> Iterator[Callable[..., World]]:
    made: list[World] = []

    def make(face: str, client: dict[str, Any] | None = None, **options: Any) -> World:
        made.append(World(face, tmp_path / f"world-{len(made)}", client or {}, **options))
        return made[-1]

    yield make
    for world in made:
        world.close()


@pytest.fixture(scope="module")
def threads_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """One for many short tests."""
    world = World("threads", tmp_path_factory.mktemp("world"), {})
    yield world
    world.close()


@pytest.fixture(params=FACES)
def face(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def world(face: str, worlds: Callable[..., World]) -> World:
    return worlds(face)


# One program, four worlds.


def program(world: World, seed: int) -> Iterator[Any]:
    """What the calls of a random program return."""
    rng = random.Random(seed)
    waits = world.waits
    ids = [f"o/{n}" for n in range(30)]
    keys = [f"k {n}" for n in range(8)]
    payloads: list[Any] = [None, "text", b"\x00\xff", {"a": [1, 2.5, None, True]}, 7, "", []]

    def row() -> tuple[Any, ...]:
        requires = [(rng.choice(keys), rng.randrange(1, 30)) for _ in range(rng.randrange(1, 4))]
        return (
            rng.choice(ids),
            requires,
            rng.choice([0, 5, 50, 500]),
            rng.choice([None, 1, len(requires), len(requires) + (rng.random() < 0.1)]),
            rng.choice(["", "shop"]),
            rng.choice(payloads),
            rng.choice([None, TRACE]),
        )

    def attempt(call: Callable[[], Any]) -> Any:
        try:
            return call()
        except SojournError as error:
            return type(error)

    def told(answers: Any) -> Any:
        """Errors by their kind: their words name the file."""
        if not isinstance(answers, list):
            return answers
        return [(a.verdict, a.at_ms, a.operation, type(a.error)) for a in answers]

    for _ in range(60):
        kind = rng.random()
        if kind < 0.35:
            one = row()
            yield attempt(partial(waits.submit, *one))
        elif kind < 0.45:
            many = [row() for _ in range(rng.randrange(6))]
            yield told(waits.submit_many(many))
        elif kind < 0.6:
            signal = (rng.choice(keys), rng.randrange(40))
            yield attempt(partial(waits.signal, *signal))
        elif kind < 0.65:
            signals = [(rng.choice(keys), rng.randrange(40)) for _ in range(4)]
            yield told(waits.signal_many([*signals, ("k", "x")]))
        elif kind < 0.72:
            yield attempt(partial(waits.cancel, rng.choice(ids)))
        elif kind < 0.75:
            yield told(waits.cancel_many(rng.sample(ids, 3)))
        elif kind < 0.85:
            yield waits.get(rng.choice(ids))
        elif kind < 0.9:
            yield waits.progress(rng.choice(keys))
        else:
            world.clock.advance(rng.choice([1, 10, 100]))
    after = 0
    while outcomes := waits.outcomes(after, limit=7):
        yield outcomes
        after = outcomes[-1].number


@pytest.mark.parametrize(
    ("face", "seed"),
    [
        *((face, 1) for face in FACES[1:]),
        *(
            pytest.param(face, n, marks=pytest.mark.nightly)
            for face in FACES[1:]
            for n in range(30)
        ),
    ],
)
def test_the_same_calls_get_the_same_answers(
    face: str, seed: int, worlds: Callable[..., World]
) -> None:
    pairs = itertools.zip_longest(
        program(worlds("embedded"), seed), program(worlds(face), seed), fillvalue="nothing"
    )
    for step, (embedded, remote) in enumerate(pairs):
        assert remote == embedded, f"call {step} of seed {seed}"


# The verbs, one by one.


def test_an_operation_comes_back_with_everything_it_had(world: World) -> None:
    requires = [("paid", 1), ("stock/blue mug", 40)]
    answer = world.waits.submit("a/b ü?", requires, 1_000, 1, "shop", {"to": "ann"}, TRACE)
    assert (answer.verdict, answer.at_ms, answer.error) == ("accepted", START_MS, None)
    operation = world.waits.get("a/b ü?")
    assert operation == answer.operation
    assert (operation.id, operation.status, operation.class_) == ("a/b ü?", "waiting", "shop")
    assert (operation.submitted_ms, operation.timeout_ms) == (START_MS, 1_000)
    assert (operation.deadline_ms, operation.at_ms, operation.waited_ms) == (
        START_MS + 1_000,
        None,
        None,
    )
    assert operation.requires == (("paid", 1), ("stock/blue mug", 40))
    assert (operation.needed, operation.payload, operation.traceparent) == (1, {"to": "ann"}, TRACE)
    world.clock.advance(1_001)
    (outcome,) = world.waits.outcomes()
    assert (outcome.status, outcome.waited_ms, outcome.number) == ("expired", 1_000, 1)
    assert outcome == world.waits.get("a/b ü?")


@pytest.mark.parametrize(
    "payload",
    [
        "text",
        "",
        "\u2028 \x00 ß",
        b"",
        bytes(range(256)),
        0,
        -(2**63),
        2**64 - 1,
        1.5,
        1e300,
        True,
        False,
        [],
        {},
        {"a": {"b": [1, None, "c"]}},
    ],
    ids=ids.plain,
)
def test_a_payload_comes_back_as_it_was_given(payload: Any, threads_world: World) -> None:
    id = f"payload {payload!r:.100}"
    threads_world.waits.submit(id, [("k", 1)], 1_000, payload=payload)
    operation = threads_world.waits.get(id).payload
    assert operation == payload
    assert type(operation) is type(payload)


@pytest.mark.parametrize(
    "id", [".", "..", "a/../b", "%2F", "a//b", "/", "?", "#", "\x00", " ", "😀"]
)
def test_any_id_and_any_key_can_be_asked_for(id: str, threads_world: World) -> None:
    waits = threads_world.waits
    waits.signal(id, 5)
    answer = waits.submit(id, [(id, 6)], 1_000)
    assert waits.get(id) == answer.operation
    assert waits.progress(id) == 5
    assert waits.cancel(id).operation.id == id
    subscription = waits.subscription(id)
    subscription.commit(1)
    assert subscription.position == 1


def test_sending_again_is_a_duplicate_and_other_content_is_refused(world: World) -> None:
    first = world.waits.submit("a", [("k", 1)], 1_000)
    again = world.waits.submit("a", [("k", 1)], 1_000)
    assert (again.verdict, again.operation) == ("duplicate", first.operation)
    with pytest.raises(IdTaken):
        world.waits.submit("a", [("k", 2)], 1_000)
    (answer,) = world.waits.submit_many([("a", [("k", 2)], 1_000)])
    assert answer.verdict == "refused"
    assert isinstance(answer.error, IdTaken)


def test_what_is_wrong_is_refused_in_the_same_way(world: World) -> None:
    waits = world.waits
    requires = [("k", 1)]
    calls: list[tuple[type[SojournError], Callable[[], Any]]] = [
        (OutOfRange, partial(waits.submit, "", requires, 10)),
        (WrongType, partial(waits.submit, "a", requires, "10")),
        (WrongType, partial(waits.submit, "a", requires, 10, payload=object())),
        (OutOfRange, partial(waits.submit, "a", requires, 10, traceparent="x")),
        (WrongType, partial(waits.signal, "k", None)),
        (WrongType, partial(waits.cancel, 7)),
        (OutOfRange, partial(waits.get, "x" * 2_000)),
        (OutOfRange, partial(waits.outcomes, after=-1)),
        (OutOfRange, partial(waits.outcomes, limit=0)),
        (OutOfRange, partial(waits.outcomes, wait_ms=-1)),
    ]
    for kind, call in calls:
        with pytest.raises(kind):
            call()
    assert len(world.purgatory) == 0


def test_a_full_purgatory_refuses_submissions_and_takes_signals(
    face: str, worlds: Callable[..., World], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Retries, "pause_s", lambda *_: 1e9)  # no second attempt
    world = worlds(face, max_waiting=1)
    world.waits.submit("a", [("k", 1)], HOUR_MS)
    with pytest.raises(Full):
        world.waits.submit("b", [("k", 1)], HOUR_MS)
    world.waits.signal("k", 1)
    assert world.waits.submit("b", [("k", 2)], HOUR_MS).verdict == "accepted"


def test_outcomes_that_retention_removed_are_missed(
    face: str, worlds: Callable[..., World]
) -> None:
    world = worlds(face, retention_ms=1_000)
    world.waits.signal("k", 1)
    for n in range(3):
        world.waits.submit(f"a{n}", [("k", 1)], 0)
    world.clock.advance(5_000)
    world.waits.signal("k", 2)
    world.waits.submit("b", [("k", 1)], 0)
    world.waits.submit("c", [("k", 1)], 0)
    with pytest.raises(Missed) as caught:
        world.waits.outcomes(after=1)
    assert [each.id for each in world.waits.outcomes(after=caught.value.last)] == ["b", "c"]
    assert world.waits.get("a0") is None


def test_a_subscription_begins_where_it_was_committed(world: World) -> None:
    world.waits.signal("k", 1)
    for n in range(5):
        world.waits.submit(f"a{n}", [("k", 1)], 0)
    mail = world.waits.subscription("mail")
    assert (mail.position, mail.behind) == (0, 5)
    assert [each.number for each in mail.read(limit=2)] == [1, 2]
    mail.commit()
    assert [each.number for each in mail.read(limit=2)] == [3, 4]
    again = world.waits.subscription("mail")
    assert (again.position, again.behind) == (2, 3)
    assert [each.number for each in again.read()] == [3, 4, 5]
    again.commit(4)
    assert [each.number for each in world.waits.subscription("mail").read()] == [5]
    assert again.read() == []
    with pytest.raises(OutOfRange):
        again.commit(6)


# What only a client has.


@pytest.fixture(params=FACES[1:])
def client_world(request: pytest.FixtureRequest, worlds: Callable[..., World]) -> World:
    return worlds(str(request.param))


def test_get_waits_for_the_end(client_world: World) -> None:
    client_world.waits.submit("a", [("k", 1)], HOUR_MS)
    assert client_world.waits.get("a", wait_ms=1).status == "waiting"
    assert client_world.waits.get("unknown", wait_ms=10_000) is None
    with Client(client_world._service.url) as other:  # type: ignore[union-attr]
        later = threading.Timer(0.05, other.signal, ("k", 1))
        later.start()
        assert client_world.waits.get("a", wait_ms=int(WAIT_S * 1000)).status == "completed"
        later.join()


def test_following_gives_each_outcome_once_and_in_order(client_world: World) -> None:
    client_world.waits.signal("k", 1)
    rows = [(f"a{n}", [("k", 1)], 0) for n in range(2_345)]
    client_world.waits.submit_many(rows)
    numbers = [each.number for each in itertools.islice(client_world.waits.follow(), 2_345)]
    assert numbers == list(range(1, 2_346))
    (first,) = itertools.islice(client_world.waits.follow(after=2_344), 1)
    assert first.number == 2_345


def test_many_tasks_that_submit_at_the_same_time_share_requests(
    worlds: Callable[..., World],
) -> None:
    world = worlds("embedded")
    service = ServiceThread(world.folder, world.purgatory)
    requests: list[httpx.Request] = []

    async def note(request: httpx.Request) -> None:
        requests.append(request)

    async def main() -> None:
        async with AsyncClient(service.url, gather=True) as waits:
            waits._http.event_hooks["request"] = [note]
            answers = await asyncio.gather(
                *(waits.submit(f"a{n}", [("k", n + 1)], HOUR_MS) for n in range(300)),
                waits.submit("a0", [("other", 1)], HOUR_MS),
                waits.submit("", [("k", 1)], HOUR_MS),
                return_exceptions=True,
            )
            assert [answer.operation.id for answer in answers[:300]] == [  # type: ignore[union-attr]
                f"a{n}" for n in range(300)
            ]
            assert [type(answer) for answer in answers[300:]] == [IdTaken, OutOfRange]
            gone = asyncio.create_task(waits.signal("k", 1))
            await asyncio.sleep(0)
            gone.cancel()
            assert (await waits.signal("k", 2)).verdict in ("accepted", "unchanged")

    try:
        asyncio.run(main())
    finally:
        service.close()
    assert len(requests) < 20


@pytest.mark.parametrize("face", FACES[1:])
def test_a_token_is_asked_for_and_never_shown(tmp_path: Path, face: str) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("read hush-reader-0123456789\nread,write hush-writer-0123456789\n")
    tokens.chmod(0o600)
    service = ServiceThread(tmp_path / "data", tokens=Tokens.read(tokens))
    try:
        for token, kind in [(None, Unauthorized), ("wrong", Unauthorized)]:
            waits = connect(face, service.url, token=token)
            with pytest.raises(kind):
                waits.signal("k", 1)
            waits.close()
        reader = connect(face, service.url, token="hush-reader-0123456789")
        writer = connect(face, service.url, token="hush-writer-0123456789")
        with pytest.raises(Unauthorized) as caught:
            reader.signal("k", 1)
        assert "hush" not in str(caught.value) + repr(reader) + repr(vars(reader))
        writer.signal("k", 1)
        assert reader.progress("k") == 1
        reader.close()
        writer.close()
    finally:
        service.close()


@pytest.mark.parametrize("face", FACES[1:])
def test_a_service_that_is_not_there_is_unreachable(face: str) -> None:
    waits = connect(face, "http://127.0.0.1:1", call_timeout_ms=200)
    with pytest.raises(Unreachable, match=r"http://127\.0\.0\.1:1 gave no answer"):
        waits.signal("k", 1)
    waits.close()


def test_connections_are_used_again(threads_world: World) -> None:
    assert threads_world._service is not None
    url = threads_world._service.url
    with Client(url) as client:
        for _ in range(5):
            client.progress("k")
        pool = client._http._transport
        assert isinstance(pool, Pool)
        assert len(pool._idle) == 1

    async def main() -> None:
        async with AsyncClient(url) as client:
            await asyncio.gather(*(client.progress("k") for _ in range(20)))
            pool = client._http._transport
            assert isinstance(pool, AsyncPool)
            opened = len(pool._idle)
            assert 1 <= opened <= 20
            await client.progress("k")
            assert len(pool._idle) == opened
            late = asyncio.create_task(client.outcomes(after=10**6, wait_ms=600_000))
            while len(pool._idle) == opened:
                await asyncio.sleep(0.001)
            late.cancel()
            await asyncio.gather(late, return_exceptions=True)
            await client.progress("k")  # over another one

    asyncio.run(main())


@pytest.mark.parametrize("face", FACES[1:])
def test_a_reply_that_trickles_does_not_hold_a_call_for_ever(face: str) -> None:
    stop = threading.Event()

    def trickle(listener: socket.socket) -> None:
        while not stop.is_set():
            with contextlib.suppress(OSError):
                connection, _ = listener.accept()
                with connection:
                    connection.recv(65_536)
                    connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n")
                    while not stop.wait(0.005):
                        connection.sendall(b" ")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.05)
        thread = threading.Thread(target=trickle, args=(listener,))
        thread.start()
        waits = connect(face, f"http://127.0.0.1:{listener.getsockname()[1]}", call_timeout_ms=300)
        try:
            with pytest.raises(Unreachable):
                waits.signal("k", 1)
        finally:
            stop.set()
            thread.join(WAIT_S)
            waits.close()


def test_a_closed_client_says_so() -> None:
    client = Client("http://127.0.0.1:1")
    client.close()
    with pytest.raises(Closed):
        client.signal("k", 1)
    assert repr(client) == "<Client of http://127.0.0.1:1 closed>"


def test_closing_a_client_ends_a_pause_of_another_thread() -> None:
    client = Client("http://127.0.0.1:1", call_timeout_ms=600_000)
    ended: list[type[BaseException]] = []

    def call() -> None:
        try:
            client.signal("k", 1)
        except SojournError as error:
            ended.append(type(error))

    thread = threading.Thread(target=call)
    thread.start()
    client.close()
    thread.join(WAIT_S)
    assert ended == [Closed]
