"""`Purgatory.wait`: the calling thread waits for a predicate or for progress."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from sojourn import Purgatory
from sojourn.errors import Cancelled, Closed, WrongType
from tests.core.waits import WAIT_S

if TYPE_CHECKING:
    from collections.abc import Callable


def test_wait_returns_what_the_predicate_returned() -> None:
    with Purgatory() as purgatory:
        responses: dict[str, str] = {}

        def answer() -> None:
            responses["r1"] = "forty-two"
            purgatory.check_and_complete("r1")

        threading.Timer(0.01, answer).start()
        assert purgatory.wait(lambda: responses.get("r1"), ["r1"], 60_000) == "forty-two"
        assert purgatory.wait(lambda: responses.get("r2"), ["r2"], 1) is False
        assert purgatory.wait(lambda: responses.get("r1"), ["r1"]) == "forty-two"
        assert (purgatory.watched, purgatory.delayed) == (0, 0)


def test_wait_for_progress() -> None:
    with Purgatory() as purgatory:
        threading.Timer(0.01, purgatory.signal, ("p", 7)).start()
        assert purgatory.wait(requires=[("p", 5)], timeout_ms=60_000) is True
        assert purgatory.wait(requires=[("p", 8)], timeout_ms=1) is False


def _cancel_its_key(purgatory: Purgatory) -> None:
    purgatory.cancel_for_key("a")


def _cancel_itself(purgatory: Purgatory) -> None:
    purgatory.waiting("a")[0].cancel()


@pytest.mark.parametrize(
    ("end", "error"),
    [(_cancel_its_key, Cancelled), (_cancel_itself, Cancelled), (Purgatory.close, Closed)],
)
def test_a_wait_is_told_when_it_is_cancelled_or_the_purgatory_closed(
    end: Callable[[Purgatory], object], error: type[Exception]
) -> None:
    with Purgatory() as purgatory, ThreadPoolExecutor(1) as executor:
        raised = executor.submit(purgatory.wait, lambda: False, ["a"], 60_000)
        while not purgatory.delayed:
            pass
        end(purgatory)
        assert isinstance(raised.exception(WAIT_S), error)


def test_an_async_predicate_is_refused_and_not_taken_for_true() -> None:
    async def predicate() -> bool:
        return False

    with Purgatory() as purgatory, pytest.raises(WrongType, match="plain function"):
        purgatory.wait(predicate, ["a"], 10)


def test_bad_calls_of_wait_say_what_to_give() -> None:
    with Purgatory() as purgatory:
        with pytest.raises(WrongType, match="a predicate and keys, or requires"):
            purgatory.wait()
        with pytest.raises(WrongType, match="a predicate and keys, or requires"):
            purgatory.wait(lambda: True, ["a"], requires=[("a", 1)])
        with pytest.raises(WrongType, match="predicate must be callable"):
            purgatory.wait(5, ["a"])  # type: ignore[arg-type]
