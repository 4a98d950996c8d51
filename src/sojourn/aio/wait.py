"""What `aio.Purgatory.wait` returns: an operation that can be awaited.

One object plays all the parts: the operation that waits in the purgatory, the coroutine that a
task runs or another coroutine awaits, and the future that the task waits for. So a wait costs one
object, and no coroutine, `asyncio.Future` or timer handle besides.

    task                         Wait                                core purgatory
      |--- send(None) ----------->|--- try, watch, start the time ------->|
      |<-- itself, not done ------|                                       |
      |--- add_done_callback() -->|                                       |
                                  |<-- on_complete(): news, or time is up-|
      |<-- call_soon(callback) ---|
      |--- result() ------------->|
      |--- send(None) ----------->|
      |<-- StopIteration(value) --|

To everybody it is a coroutine: it does nothing until it is awaited, and can be awaited once; but
it does not complain if it never is. Only the task that has come to wait for it sees the future
(`_asyncio_future_blocking` is None until then).

Everything here happens in the loop's thread. An operation may be ended from any other; then the
loop is asked to call `_end_wait`.
"""

from __future__ import annotations

try:
    import cython
except ImportError:  # pragma: no cover - depends on what is installed
    from sojourn import _cython as cython

import math
from asyncio import CancelledError, InvalidStateError
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_ITERABLE_COROUTINE
from types import AsyncGeneratorType
from typing import TYPE_CHECKING, Any

from sojourn.errors import AlreadyWaiting, OutOfRange, WrongType

if cython.compiled:
    from cython.cimports.sojourn.aio.loop import LoopThread
    from cython.cimports.sojourn.operation import COMPLETED, DelayedOperation
else:
    from sojourn.aio.loop import LoopThread
    from sojourn.operation import COMPLETED, DelayedOperation

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from sojourn.purgatory import Purgatory

# How far it has come.
NEW = 0
WAITING = 1
OVER = 2

# How far it has been stepped through as a coroutine.
UNTOUCHED = 0
AWAITED = 1
PARKED = 2  # it has given itself, as a future
DELIVERED = 3  # it has given its result

_A_CENTURY_MS = 100 * 365 * 86_400_000
_ASYNCHRONOUS = CO_COROUTINE | CO_ITERABLE_COROUTINE | CO_ASYNC_GENERATOR


class Wait(DelayedOperation):
    """Waits in a purgatory for a predicate or for progress; await it, once."""

    __slots__ = (
        "_asyncio_future_blocking",
        "_callback",
        "_context",
        "_core",
        "_failure",
        "_is_cancelled",
        "_keys",
        "_loop",
        "_more_callbacks",
        "_phase",
        "_predicate",
        "_steps",
        "_value",
    )

    _predicate: Any
    _keys: Any  # until it starts: its keys, or what it requires and how much of that
    _value: Any  # what the predicate returned; the message, once it is cancelled
    _failure: Any  # what is raised instead
    _callback: Any  # nearly always the only one: the task's
    _context: Any
    _more_callbacks: Any

    def __init__(
        self,
        loop: LoopThread,
        core: Purgatory,
        predicate: Callable[[], object] | None,
        keys: Any,
        timeout: float | None,
    ) -> None:
        timeout_ms = _A_CENTURY_MS if timeout is None else as_ms(timeout, "timeout")
        DelayedOperation.__init__(self, timeout_ms)
        self._loop = loop
        self._core = core
        self._predicate = predicate
        self._keys = keys
        self._asyncio_future_blocking = None
        self._phase = NEW
        self._steps = UNTOUCHED
        self._is_cancelled = False
        if not cython.compiled:  # a compiled object starts out like this
            self._value = None
            self._failure = None
            self._callback = None
            self._context = None
            self._more_callbacks = None

    # The operation.

    def try_complete(self) -> bool:
        predicate = self._predicate
        if predicate is None:
            return False
        value = predicate()
        if not value:
            return False
        if value is not True:
            if is_asynchronous(value):
                raise refuse_asynchronous(predicate, value)
            self._value = value
        return True

    def on_complete(self) -> None:
        self._end_here()

    def _sj_on_cancel(self, why: BaseException | None) -> None:
        if why is not None and not self._is_cancelled:
            self._failure = type(why)(*why.args)  # one for each, since each gets a traceback
        self._end_here()

    # The coroutine.

    def __await__(self) -> Wait:
        if self._steps != UNTOUCHED:
            raise awaited_already(self)
        self._steps = AWAITED
        return self

    def __iter__(self) -> Wait:
        return self

    def __next__(self) -> Wait:
        if self._phase == NEW:
            self._start()
        if self._phase == OVER:
            if self._steps == DELIVERED:
                raise awaited_already(self)
            self._steps = DELIVERED
            raise StopIteration(self.result())
        if self._steps == PARKED:
            raise awaited_already(self)
        self._steps = PARKED
        self._asyncio_future_blocking = True
        return self

    def send(self, _: object) -> Wait:
        """Go on: give the future to wait for, or raise StopIteration with the result."""
        return self.__next__()

    def throw(self, kind: Any, value: Any = None, traceback: Any = None) -> None:
        """Stop waiting and raise the error."""
        self.cancel()
        if value is None:
            value = kind() if isinstance(kind, type) else kind
        raise value if traceback is None else value.with_traceback(traceback)

    def close(self) -> None:
        """Stop waiting."""
        self.cancel()

    # The future.

    def get_loop(self) -> AbstractEventLoop:
        """Return the loop it waits on."""
        return self._loop.loop

    def done(self) -> bool:
        """Say whether the wait is over."""
        return self._phase == OVER

    def cancelled(self) -> bool:
        """Say whether the task that waits was cancelled."""
        return self._phase == OVER and self._is_cancelled

    def cancel(self, msg: object = None) -> bool:
        """Stop waiting, because the one who waits is cancelled; say whether it was waiting."""
        if self._phase == OVER:
            return False
        self._is_cancelled = True
        if self._phase == NEW:
            self._end_wait()
        elif not DelayedOperation.cancel(self):  # it has just ended
            self._is_cancelled = False
            return False
        self._value = msg
        return True

    def result(self) -> Any:
        """Return what the predicate returned, or True; False if the time ran out."""
        failure = self.exception()
        if failure is not None:
            raise failure
        if self._sj_state != COMPLETED:
            return False
        return True if self._value is None else self._value

    def exception(self) -> BaseException | None:
        """Return what `result` would raise, or None."""
        if self._phase != OVER:
            raise InvalidStateError("the wait is not over")
        if self._is_cancelled:
            raise self._make_cancelled_error()
        return self._failure  # type: ignore[no-any-return]

    def add_done_callback(
        self, fn: Callable[[Any], object], *, context: Context | None = None
    ) -> None:
        """Call `fn` with this object, soon after the wait is over."""
        if self._phase == NEW:
            self._start()
        if context is None:
            context = copy_context()
        if self._phase == OVER:
            self._loop.call_soon(fn, self, context)
        elif self._callback is None:
            self._callback = fn
            self._context = context
        else:
            if self._more_callbacks is None:
                self._more_callbacks = []
            self._more_callbacks.append((fn, context))

    def remove_done_callback(self, fn: Callable[[Any], object]) -> int:
        """Do not call `fn`; return how many times it would have been called."""
        callbacks = self._take_callbacks()
        kept = [(callback, context) for callback, context in callbacks if callback != fn]
        if kept:
            self._callback, self._context = kept[0]
            self._more_callbacks = kept[1:]
        return len(callbacks) - len(kept)

    def _make_cancelled_error(self) -> CancelledError:  # gather asks for it by this name
        return CancelledError() if self._value is None else CancelledError(self._value)

    # Beginning and end.

    def _start(self) -> None:
        self._phase = WAITING
        keys, self._keys = self._keys, None
        try:
            self._loop.check()
            if self._predicate is None:
                requires, needed = keys
                self._core.try_complete_else_watch(self, requires=requires, needed=needed)
            else:
                self._core.try_complete_else_watch(self, keys)
        except BaseException as error:
            self._failure = error
            if self._phase != OVER:
                self._end_wait()

    def _end_here(self) -> None:
        if self._loop.is_here():
            self._end_wait()
        else:
            self._loop.call_soon(end_wait, self, None)

    def _end_wait(self) -> None:
        self._phase = OVER
        self._predicate = None
        if self._failure is None:
            self._failure = as_raised(self._sj_error)
        if self._callback is not None:
            callback, context = self._callback, self._context
            self._callback = self._context = None
            self._loop.call_soon(callback, self, context)
        if self._more_callbacks is not None:
            for callback, context in self._more_callbacks:
                self._loop.call_soon(callback, self, context)
            self._more_callbacks = None

    def _take_callbacks(self) -> list[Any]:
        if self._callback is None:
            return []
        callbacks = [(self._callback, self._context)]
        if self._more_callbacks is not None:
            callbacks += self._more_callbacks
        self._callback = self._context = self._more_callbacks = None
        return callbacks


def end_wait(wait: Wait) -> None:
    """End the wait; the loop calls this."""
    wait._end_wait()


def checked_wait(
    loop: LoopThread,
    core: Purgatory,
    predicate: Any,
    keys: Any,
    requires: Any,
    needed: Any,
    timeout: Any,
) -> Wait:
    """Return a new wait, or say what is wrong with what it is to wait for."""
    if requires is not None:
        if predicate is not None or keys is not None:
            raise WrongType("give a predicate and keys, or requires; not both")
        return Wait(loop, core, None, (requires, needed), timeout)
    if predicate is None and keys is None:
        raise WrongType("nothing to wait for; give a predicate and its keys, or requires")
    if not callable(predicate):
        raise WrongType(f"predicate must be callable, got {predicate!r}")
    if needed is not None:
        raise WrongType("needed goes with requires; a predicate decides by itself")
    code = getattr(predicate, "__code__", None)
    if code is not None and code.co_flags & _ASYNCHRONOUS:
        raise refuse_asynchronous(predicate, None)
    return Wait(loop, core, predicate, keys, timeout)


def is_asynchronous(value: Any) -> bool:
    kind = type(value)
    return hasattr(kind, "__await__") or kind is AsyncGeneratorType


def refuse_asynchronous(predicate: Any, value: Any) -> WrongType:
    if isinstance(value, Coroutine):
        value.close()  # else Python warns that it was never awaited
    return WrongType(
        f"predicate must be a plain function, got {predicate!r}, whose answer has to be awaited; "
        "await first, keep what came of it, and let the predicate look at that"
    )


def awaited_already(wait: Wait) -> AlreadyWaiting:
    return AlreadyWaiting(
        "this wait is awaited already, and it can be once; "
        "call wait() again, or await one task several times: create_task(purgatory.wait(...))"
    )


def as_raised(error: BaseException | None) -> BaseException | None:
    """Return what stands for the error in a coroutine, where StopIteration means the end."""
    if not isinstance(error, StopIteration):
        return error
    raised = RuntimeError("a callback raised StopIteration")
    raised.__cause__ = error
    return raised


def as_ms(seconds: Any, name: str) -> int:
    """Whole milliseconds, rounded up, so that nothing is early."""
    try:
        return math.ceil(seconds * 1000)
    except (TypeError, ValueError, OverflowError):
        raise OutOfRange(
            f"{name} must be a finite number of seconds, got {seconds!r}"
            + ("; None waits without a limit" if name == "timeout" else "")
        ) from None
