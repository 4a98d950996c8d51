"""A subclass may use any name that is not documented and does not begin with `_sj_`."""

from __future__ import annotations

import ast
from collections import Counter
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import sojourn
from sojourn import DelayedFuture, DelayedOperation, ManualClock, Purgatory, Timer, TimerTask

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DOCUMENTED = {
    TimerTask: {"run", "cancel", "delay_ms", "expiration_ms"},
    DelayedOperation: {
        "try_complete",
        "on_complete",
        "on_expiration",
        "force_complete",
        "safe_try_complete",
        "safe_try_complete_or_else",
        "is_completed",
        "is_expired",
        "timeout_ms",
    },
    DelayedFuture: {"watch_in"},
}
# Names that an author of a subclass is likely to choose.
LIKELY = """
    _action _again _alarm _armed _attempt _buckets _callback _callbacks _cancelled _clock _closed
    _completed _counter _deadline _delay _delayed _depth _done _driver _end _ended _ended_in_try
    _error _errors _expiration_ms _expired _fail _failed _first _future _gate _handle _heap _index
    _is_first _is_ready _keeper _keeping _key _keys _last _list _lock _loop _name _needed _next
    _now _on_done _operation _owner _places _predicate _prev _priority _purgatory _queue _ready
    _requires _result _root _run _settle _slot _started _started_us _state _stay _task _thread
    _tick _timeout _timer _tree _trier _value _wait _waiting _watch _watched _watchers _watches
    acquire add again attempt callback callbacks clear close closed completed deadline delay
    delayed done end ended enter entry error errors expire expired fail failed first future get
    give_up handle id is_cancelled is_waiting key keeper keys last leave link list lock name needed
    next on_cancel on_end on_error on_signal operation owner place pop prev priority progress
    purgatory put queue ready release remove requires reset result retries root schedule
    set_result settle signal signalled size start started state stay stop submit task thread tick
    timeout timer tree try_acquire try_again unlink value wait waiting watch watched watches
""".split()  # noqa: SIM905 - as a list it would be two pages


def names_in_the_sources() -> Iterator[str]:
    """Every attribute that the modules of tasks and operations have or use."""
    folder = Path(sojourn.__file__).parent / "core"
    for module in ("task", "lock", "operation", "futures", "timer", "residents", "purgatory"):
        for node in ast.walk(ast.parse((folder / f"{module}.py").read_text("utf-8"))):
            if isinstance(node, ast.Attribute):
                yield node.attr
            elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                yield node.name
            elif isinstance(node, ast.Constant) and str(node.value).isidentifier():
                yield str(node.value)  # a slot


def natural_names(cls: type) -> list[str]:
    documented = {name for base in cls.__mro__ for name in DOCUMENTED.get(base, ())}
    names = {*LIKELY, *names_in_the_sources()} - documented
    return sorted(
        name for name in names if not name.startswith(("_sj_", "__")) and name.isidentifier()
    )


def raising(name: str) -> Callable[..., Any]:
    def method(*_: object, **__: object) -> Any:
        raise AssertionError(f"Sojourn called {name}(), which is the subclass's own")

    return method


def subclass(base: type, names: list[str], way: str, calls: Counter[str]) -> Any:
    """A subclass that uses the names, as attributes of its objects or as methods that raise."""

    def init(self: Any, *arguments: Any) -> None:
        if way == "attributes set before":
            set_names(self)
        base.__init__(self, *arguments)  # type: ignore[misc]
        if way == "attributes set after":
            set_names(self)

    def set_names(self: Any) -> None:
        for name in names:
            setattr(self, name, f"my own {name}")

    body: dict[str, Any] = {"__init__": init}
    if way == "methods":
        body |= {name: raising(name) for name in names}
    if base is TimerTask:
        body["run"] = lambda self: calls.update(["run"])
    else:
        body["on_expiration"] = lambda self: calls.update(["on_expiration"])
    if base is DelayedOperation:
        body["try_complete"] = lambda self: calls["is true"] > 0
        body["on_complete"] = lambda self: calls.update(["on_complete"])
    return type("Mine", (base,), body)


def lives_of_a_task(make: Callable[[], Any], calls: Counter[str]) -> None:
    clock = ManualClock()
    timer = Timer(clock)
    task = make()
    timer.add(task)
    timer.add(task)
    assert (len(timer), task.expiration_ms, task.delay_ms) == (1, 5, 5)
    clock.advance(5)
    assert (len(timer), calls["run"], timer.errors) == (0, 1, 0)
    timer.add(task)
    assert task.cancel()
    clock.advance(50)
    assert (len(timer), calls["run"], timer.errors) == (0, 1, 0)
    repr(task)


def lives_of_an_operation(make: Callable[[], Any], calls: Counter[str]) -> None:
    clock = ManualClock()
    purgatory = Purgatory(clock=clock)

    def waits(**how: Any) -> tuple[Any, Future[bool]]:
        operation = make()
        future = purgatory.submit(operation, **how)
        assert purgatory.delayed == 1
        return operation, future

    _, future = waits(keys=["a", "b"])
    calls["is true"] = 1
    assert purgatory.check_and_complete("b") == 1
    assert future.result(timeout=0) is True
    assert purgatory.try_complete_else_watch(make(), ["a"]) is True
    calls["is true"] = 0

    _, future = waits(keys=["a"])
    clock.advance(5)
    assert future.result(timeout=0) is False

    operation, future = waits(keys=["a"])
    assert not operation.safe_try_complete()
    assert not operation.safe_try_complete_or_else(int)
    assert operation.cancel()
    assert future.cancelled()
    assert purgatory.try_complete_else_watch(operation, ["a"]) is False  # once more
    assert purgatory.cancel_for_key("a") == [operation]

    operation, future = waits(keys=["a"])
    assert operation.force_complete()
    assert future.result(timeout=0) is True
    assert operation.is_completed
    assert not operation.is_expired

    _, future = waits(requires=[("p", 1)])
    assert purgatory.signal("p", 1) == 1
    assert future.result(timeout=0) is True

    operation, future = waits(requires=[("p", 2)])
    repr(operation)
    assert purgatory.close() == 1
    assert future.cancelled()

    totals = purgatory.metrics()
    assert (totals.completed, totals.expired, totals.cancelled, totals.errors) == (4, 1, 3, 0)
    assert (calls["on_complete"], calls["on_expiration"]) == (5, 1)


def lives_of_a_delayed_future(make: Callable[[Future[None]], Any], calls: Counter[str]) -> None:
    clock = ManualClock()
    with Purgatory(clock=clock) as purgatory:
        inner: Future[None] = Future()
        outcome = make(inner).watch_in(purgatory)
        inner.set_result(None)
        assert outcome.result(timeout=0) is True
        inner = Future()
        outcome = make(inner).watch_in(purgatory)
        clock.advance(5)
        assert outcome.result(timeout=0) is False
        assert inner.cancelled()
        assert calls["on_expiration"] == 1
        assert purgatory.metrics().errors == 0


LIVES: dict[type, tuple[Callable[..., None], Callable[..., tuple[Any, ...]]]] = {
    TimerTask: (lives_of_a_task, lambda: (5,)),
    DelayedOperation: (lives_of_an_operation, lambda: (5,)),
    DelayedFuture: (lives_of_a_delayed_future, lambda future: ([future], 5)),
}


def _made(mine: Any, arguments: Callable[..., tuple[Any, ...]], *given: Any) -> Any:
    return mine(*arguments(*given))


@pytest.mark.parametrize("way", ["attributes set before", "attributes set after", "methods"])
@pytest.mark.parametrize("base", LIVES, ids=lambda base: base.__name__)
def test_a_subclass_may_use_any_natural_name(base: type, way: str) -> None:
    live, arguments = LIVES[base]
    names = natural_names(base)
    assert len(names) > 150
    for used in [[name] for name in names] + [names]:  # each by itself, then all together
        calls: Counter[str] = Counter()
        mine = subclass(base, used, way, calls)
        try:
            live(partial(_made, mine, arguments), calls)
        except BaseException as error:
            error.add_note(f"{base.__name__} with {', '.join(used)} as {way}")
            raise
