"""A service that is killed and started again loses nothing that a client was told."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from sojourn.client import AsyncClient, Client
from tests.client.service import WAIT_S, Blocking, ServiceProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

LONG_MS = 600_000


@pytest.fixture
def service(tmp_path: Path) -> Iterator[ServiceProcess]:
    process = ServiceProcess(tmp_path / "waits")
    process.start()
    yield process
    process.kill()


def threads(url: str) -> Any:
    return Client(url, call_timeout_ms=LONG_MS)


def tasks(url: str) -> Any:
    return Blocking(lambda: AsyncClient(url, call_timeout_ms=LONG_MS))


class Following(threading.Thread):
    """Follows the feed until it has so many."""

    def __init__(self, make: Callable[[], Any], count: int) -> None:
        super().__init__(daemon=True)
        self.numbers: list[int] = []
        self.ids: list[str] = []
        self._make = make
        self._count = count
        self._some = threading.Event()

    def run(self) -> None:
        waits = self._make()
        for outcome in waits.follow():
            self.numbers.append(outcome.number)
            self.ids.append(outcome.id)
            self._some.set()
            if len(self.ids) == self._count:
                break
        waits.close()

    def await_more(self) -> None:
        """Until there is another outcome, or there are enough."""
        self._some.clear()
        if len(self.ids) < self._count:
            assert self._some.wait(WAIT_S)


def kill_while_following(service: ServiceProcess, face: Any, count: int, kills: int) -> None:
    def submit() -> None:
        waits = face(service.url)
        waits.signal("k", 1)
        for n in range(count):
            answer = waits.submit(f"a{n}", [("k", 1)], 1_000, payload={"n": n})
            verdicts.append(answer.verdict)
        waits.close()

    verdicts: list[str] = []
    following = Following(lambda: face(service.url), count)
    following.start()
    submitting = threading.Thread(target=submit, daemon=True)
    submitting.start()
    for _ in range(kills):
        following.await_more()
        service.kill()
        service.start()
    submitting.join(WAIT_S)
    following.join(WAIT_S)
    assert not submitting.is_alive()
    assert following.numbers == list(range(1, count + 1))
    assert following.ids == [f"a{n}" for n in range(count)]
    assert set(verdicts) <= {"accepted", "duplicate"}


@pytest.mark.parametrize("face", [threads, tasks])
def test_following_over_kills_misses_nothing_and_tells_nothing_twice(
    service: ServiceProcess, face: Any
) -> None:
    kill_while_following(service, face, count=60, kills=2)


@pytest.mark.nightly
@pytest.mark.parametrize("face", [threads, tasks])
def test_following_over_many_kills(service: ServiceProcess, face: Any) -> None:
    kill_while_following(service, face, count=3_000, kills=40)


def test_a_wait_goes_on_over_a_restart_and_a_position_is_kept(service: ServiceProcess) -> None:
    with Client(service.url, call_timeout_ms=LONG_MS) as waits:
        waits.submit("a", [("k", 1)], LONG_MS)
        waits.submit("b", [("l", 1)], 0)
        mail = waits.subscription("mail")
        assert [each.id for each in mail.read(wait_ms=LONG_MS)] == ["b"]
        mail.commit()
        got: list[Any] = []
        waiting = threading.Thread(target=lambda: got.append(waits.get("a", LONG_MS)))
        waiting.start()
        assert service.stop() == 0
        service.start()
        assert waits.subscription("mail").position == 1
        waits.signal("k", 1)
        waiting.join(WAIT_S)
        assert [each.status for each in got] == ["completed"]
        assert [each.id for each in mail.read(wait_ms=LONG_MS)] == ["a"]
