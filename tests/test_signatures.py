"""One verb has the same arguments wherever it is offered: in threads, in asyncio, over HTTP.

Each class spells its arguments out, so that `help()` and editors show them. These tests keep the
copies alike.
"""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from sojourn import Purgatory, aio, client, compiled, durable

VERBS = ("submit", "signal", "cancel", "submit_many", "signal_many", "cancel_many", "outcomes")
LIVE_VERBS = (
    "try_complete_else_watch",
    "submit",
    "submit_into",
    "submit_many",
    "check_and_complete",
    "signal",
    "signal_many",
    "progress",
    "audit",
    "cancel_for_key",
    "metrics",
    "close",
)


def arguments(function: Any) -> list[tuple[str, Any, Any]]:
    """Name, kind and default of each."""
    parameters = inspect.signature(function).parameters.values()
    return [(each.name, each.kind, each.default) for each in parameters]


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    "kind",
    [durable.AsyncPurgatory, client.Client, client.AsyncClient],
    ids=["AsyncPurgatory", "Client", "AsyncClient"],
)
def test_a_durable_verb_takes_the_same_arguments_in_a_file_and_over_http(
    kind: type, verb: str
) -> None:
    assert arguments(getattr(kind, verb)) == arguments(getattr(durable.Purgatory, verb))


@pytest.mark.parametrize("verb", LIVE_VERBS)
def test_a_verb_takes_the_same_arguments_in_asyncio_and_in_threads(verb: str) -> None:
    assert arguments(getattr(aio.Purgatory, verb)) == arguments(getattr(Purgatory, verb))


@pytest.mark.skipif(compiled, reason="a compiled class does not tell the arguments of __init__")
def test_an_option_has_the_same_default_in_asyncio_and_in_threads() -> None:
    ours = {name: default for name, _, default in arguments(aio.Purgatory.__init__)}
    cores = {name: default for name, _, default in arguments(Purgatory.__init__)}
    assert cores.keys() - ours.keys() == {"clock", "executor"}  # the loop is both
    assert ours.items() <= cores.items()
