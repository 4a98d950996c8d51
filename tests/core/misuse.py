"""Every public class, used wrongly in every way we can think of.

Run by itself it makes each misuse on the build in use and prints a line for each: the class, the
misuse, the name of the error and its message; so that two builds can be compared line by line:

    python -m tests.core.misuse
"""

from __future__ import annotations

import asyncio
import copy
import json
import logging
import pickle
import re
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import partial
from typing import Any, NamedTuple

from sojourn import (
    DelayedFuture,
    DelayedOperation,
    ManualClock,
    Purgatory,
    Timer,
    TimerTask,
    TimingWheel,
)
from sojourn.errors import SojournError
from tests.core.public_classes import AIO_SUBJECTS, SUBJECTS, Subject

# The kinds of misuse.
NEW = "never initialised"
FORGOT = "subclass forgot super().__init__()"
TWICE = "initialised twice"
COPIED = "copied"
ARGUMENT = "argument"
NAMES = "public names"
UNUSED = "public names that this walk does not use"


class Line(NamedTuple):
    """One misuse and what came of it."""

    cls: str
    kind: str
    what: str
    error: str  # the name of its class; "" if there was none
    message: str
    is_ours: bool


BAD = {
    "None": None,
    "a string": "x",
    "bytes": b"x",
    "a float": 1.5,
    "not a number": float("nan"),
    "True": True,
    "zero": 0,
    "minus one": -1,
    "2**62": 2**62,
    "2**70": 2**70,
    "-2**70": -(2**70),
    "an object": object(),
    "a list": [],
    "a list of lists": [[]],
    "a tuple": (1, 2, 3, 4),
    "a class": dict,
}

COPIES: dict[str, Callable[[Any], object]] = {
    "copy.copy": copy.copy,
    "copy.deepcopy": copy.deepcopy,
    **{f"pickle {n}": partial(pickle.dumps, protocol=n) for n in range(6)},
}


def outcome(call: Callable[[], object]) -> tuple[str, str, bool]:
    """The name of the error and its message, without addresses; and whether it is one of ours."""
    try:
        said = call()
    except Exception as error:
        return type(error).__name__, _plain(str(error)), isinstance(error, SojournError)
    return "", _plain(repr(said)), True


def _plain(text: str) -> str:
    return re.sub(r"0x[0-9a-f]+|-?\d{10,}|(?<=expiration_ms=)\d+", "N", text)


def walk(subjects: tuple[Subject, ...]) -> Iterator[Line]:
    for subject in subjects:
        yield from _walk(subject)


def _walk(subject: Subject) -> Iterator[Line]:
    def line(kind: str, what: str, call: Callable[[], object]) -> Line:
        return Line(subject.name, kind, what, *outcome(call))

    names = [name for name in dir(subject.cls) if not name.startswith("_")]
    yield line(NAMES, "", lambda: ", ".join(names))
    used = set(re.findall(r"\w+", " ".join(subject.calls)))
    yield line(UNUSED, "", lambda: ", ".join(name for name in names if name not in used))

    forgetful = type(
        f"Forgetful{subject.cls.__name__}", (subject.cls,), {"__init__": lambda self: None}
    )
    for kind, cls in ((NEW, subject.cls), (FORGOT, forgetful)):
        for name, call in (subject.calls | {"repr": repr}).items():
            yield line(kind, name, partial(call, _empty(cls)))

    for name, again in _second_inits(subject):
        yield line(TWICE, name, again)

    for name, copied in COPIES.items():
        yield line(COPIED, name, partial(copied, subject.make()))
        yield line(COPIED, f"{name} of one never initialised", partial(copied, _empty(subject.cls)))

    for name, bad in BAD.items():
        for argument, calls in subject.arguments.items():
            for number, make in enumerate(calls):
                yield line(ARGUMENT, f"{argument}{number or ''}: {name}", partial(_made, make, bad))
        for argument, call_with in subject.with_bad.items():
            yield line(ARGUMENT, f"{argument}: {name}", partial(call_with, subject.make(), bad))


def _empty(cls: Any) -> object:
    return cls.__new__(cls)


def _made(make: Callable[[Any], object], bad: object) -> str:
    return type(make(bad)).__name__


def _second_inits(subject: Subject) -> Iterator[tuple[str, Callable[[], object]]]:
    arguments: tuple[Any, ...] = ()
    if issubclass(subject.cls, DelayedFuture):
        arguments = ([Future()], 7)
    elif issubclass(subject.cls, TimerTask):
        arguments = (7,)

    def again(thing: Any) -> object:
        return thing.__init__(*arguments)

    yield "at once", lambda: again(subject.make())
    if not issubclass(subject.cls, TimerTask):
        return

    def while_it_waits_on_a_timer() -> object:
        clock = ManualClock()
        timer = Timer(clock)
        task = subject.make()
        timer.add(task)
        try:
            return again(task)
        finally:
            assert len(timer) == 1
            clock.advance(10)
            assert (len(timer), timer.errors) == (0, 0)

    def while_it_waits_in_a_wheel() -> object:
        wheel = TimingWheel()
        task = subject.make()
        wheel.add(task, 5)
        try:
            return again(task)
        finally:
            assert wheel.advance(10) == [task]

    yield "while it waits on a timer", while_it_waits_on_a_timer
    yield "while it waits in a wheel", while_it_waits_in_a_wheel
    if not issubclass(subject.cls, DelayedOperation):
        return

    def while_it_waits(**how: Any) -> object:
        clock = ManualClock()
        purgatory = Purgatory(clock=clock)
        operation = subject.make()
        future = purgatory.submit(operation, **how)
        try:
            return again(operation)
        finally:
            assert purgatory.watched == purgatory.delayed == len(purgatory.timer) == 1
            clock.advance(10)
            assert future.result(timeout=0) is False
            assert purgatory.metrics().expired == 1
            assert (purgatory.watched, purgatory.delayed, len(purgatory.timer)) == (0, 0, 0)

    def after_it_has_ended() -> object:
        operation = subject.make()
        assert operation.force_complete()
        try:
            return again(operation)
        finally:
            assert operation.is_completed
            assert not operation.force_complete()

    yield "while it waits for news", lambda: while_it_waits(keys=["key"])
    yield "while it waits for progress", lambda: while_it_waits(requires=[("key", 1)])
    yield "after it has ended", after_it_has_ended


def show(subjects: tuple[Subject, ...]) -> None:
    for line in walk(subjects):
        print(json.dumps(line, ensure_ascii=False), flush=True)  # so that a crash shows where


async def show_on_a_loop(subjects: tuple[Subject, ...]) -> None:
    show(subjects)


if __name__ == "__main__":
    logging.getLogger("sojourn").disabled = True
    show(SUBJECTS)
    asyncio.run(show_on_a_loop(AIO_SUBJECTS))
