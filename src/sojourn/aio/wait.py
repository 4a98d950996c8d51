"""What `aio.Purgatory.wait` returns: an operation that can be awaited.

One object plays all the parts: the operation that waits in the purgatory, the coroutine that a
task runs or another coroutine awaits, and the future that the task waits for. So a wait costs one
object, and no coroutine, `asyncio.Future` or timer handle besides.

    task                         Wait                                core purgatory
      |--- send(None) ----------->|--- try, watch, start the time ------->|
      |<-- itself, not done ------|                                       |
      |--- add_done_callback() -->|                                       |
                                  |<-- on_complete(): news, or time is up-|
      |<-- callback, in the loop -|
      |--- result() ------------->|
      |--- send(None) ----------->|
      |<-- StopIteration(value) --|

To everybody it is a coroutine: it does nothing until it is awaited, and can be awaited once; but
it does not complain if it never is. Only the task that has come to wait for it sees the future:
until then `_asyncio_future_blocking` is None, which tells asyncio that this is not a future.

All of this happens in the loop's thread. An operation may be ended from any other; then the loop
is asked to end the wait.
"""

from __future__ import annotations

try:
    import cython
except ImportError:  # pragma: no cover - depends on what is installed
    from sojourn import _cython as cython

from asyncio import CancelledError, InvalidStateError
from collections.abc import Callable
from contextvars import Context, copy_context
from types import BuiltinFunctionType
from typing import TYPE_CHECKING, Any

from sojourn._log import shown
from sojourn.aio.conditions import refuse_asynchronous
from sojourn.core.alike import not_initialised, start_out
from sojourn.errors import AlreadyWaiting, Cancelled, WrongType

if cython.compiled:
    from cython.cimports.cpython.exc import PyErr_SetObject
    from cython.cimports.cpython.ref import Py_REFCNT
    from cython.cimports.sojourn.core.collector import (
        PyObject_GC_IsTracked,
        PyObject_GC_Track,
        PyObject_GC_UnTrack,
    )
else:
    from sojourn.aio.conditions import as_ms, checked_condition, is_asynchronous
    from sojourn.aio.loop import LoopThread
    from sojourn.core.operation import CANCELLED, COMPLETED, DelayedOperation
    from sojourn.core.task import OVERRIDDEN

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from sojourn.core.purgatory import Purgatory

# How far it has come.
NEW = 0
WAITING = 1
OVER = 2

# How far it has been stepped through as a coroutine.
UNTOUCHED = 0
AWAITED = 1
PARKED = 2  # it has given itself, as a future
DELIVERED = 3  # it has given its result

# Whether it is a future yet, and a task is to wait for it.
NO_FUTURE = 0
NOT_BLOCKING = 1
BLOCKING = 2

_NO_TASK: Any = object()  # in place of a task's message
_A_CENTURY_MS = 100 * 365 * 86_400_000


class Home(LoopThread):
    """Where waits belong: an event loop, and a purgatory that it drives.

    It wakes all tasks whose waits are over in one call of the loop, in the order they ended.
    """

    __slots__ = ("_ended", "core", "is_closed")

    def __init__(self, loop: LoopThread, core: Purgatory) -> None:
        self.loop = loop.loop
        self.thread = loop.thread
        self.core = core
        self.is_closed = False
        self._ended: list[Wait] = []

    def wake(self, wait: Wait) -> None:
        """Let the loop tell those who wait for it; call this in the loop's thread."""
        self._ended.append(wait)
        if len(self._ended) == 1:
            self.call_soon(tell_all, self, None)


class Wait(DelayedOperation):
    """Waits in a purgatory for a predicate or for progress; await it, once."""

    __slots__ = (
        "_blocking",
        "_callback",
        "_context",
        "_has_failed",
        "_home",
        "_is_cancelled",
        "_keys",
        "_outcome",
        "_phase",
        "_predicate",
        "_steps",
    )

    _home: Home
    _phase: int
    _steps: int
    _blocking: int
    _is_cancelled: bool
    _has_failed: bool
    _predicate: Any
    _keys: Any  # until it starts: its keys, or what it requires and how much of that
    _outcome: Any  # what the predicate returned; or what went wrong; or the cancel message
    _callback: Any  # whom to tell: nearly always the task alone; or a list of (callback, context)
    _context: Any

    def __init__(self, *_: object) -> None:
        raise WrongType("a wait is made by aio.Purgatory.wait()")

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
            self._outcome = value
        return True

    def on_complete(self) -> None:
        self._end_from_here()

    def _sj_on_cancel(self, why: BaseException | None) -> None:
        if not self._is_cancelled:
            self._has_failed = True
            if why is None:
                self._outcome = Cancelled("the wait was cancelled")
            else:
                self._outcome = type(why)(*why.args)  # each raises its own, with a traceback
        self._end_from_here()

    # The coroutine.

    def __getattr__(self, name: str) -> Any:
        if name == "__qualname__":  # what the repr of a task calls it
            return "aio.Purgatory.wait"
        raise AttributeError(f"a wait has no attribute {name!r}")

    def __await__(self) -> Wait:
        if self._steps != UNTOUCHED:
            raise awaited_already()
        self._steps = AWAITED
        return self

    def __iter__(self) -> Wait:
        return self

    def __next__(self) -> Wait:
        if self._phase == NEW:
            self._start()
        if self._phase == OVER:
            if self._steps == DELIVERED:
                raise awaited_already()
            self._steps = DELIVERED
            value = self.result()
            if cython.compiled:
                PyErr_SetObject(StopIteration, StopIteration(value))
                raise StopIteration  # leaves it as it was set: without the cost of a traceback
            raise StopIteration(value)
        if self._steps == PARKED:
            raise awaited_already()
        self._steps = PARKED
        self._blocking = BLOCKING
        return self

    def send(self, _: object) -> Wait:
        """Go on: return the future to wait for, or raise StopIteration with the result."""
        return self.__next__()

    def throw(self, kind: Any, value: Any = None, traceback: Any = None) -> None:
        """Stop waiting and raise the error."""
        self.close()
        if value is None:
            value = kind() if isinstance(kind, type) else kind
        raise value if traceback is None else value.with_traceback(traceback)

    def close(self) -> None:
        """Stop waiting."""
        self._steps = DELIVERED
        self.cancel(None)

    # The future.

    @property
    def _asyncio_future_blocking(self) -> bool | None:
        """What asyncio goes by: None if this is no future, True if a task is to wait for it."""
        return None if self._blocking == NO_FUTURE else self._blocking == BLOCKING

    @_asyncio_future_blocking.setter
    def _asyncio_future_blocking(self, blocking: bool) -> None:
        self._blocking = BLOCKING if blocking else NOT_BLOCKING

    def get_loop(self) -> AbstractEventLoop:
        """Return the loop it waits on."""
        if self._home is None:
            raise not_initialised(self)
        return self._home.loop  # type: ignore[no-any-return]

    def done(self) -> bool:
        """Say whether the wait is over."""
        return self._phase == OVER

    def cancelled(self) -> bool:
        """Say whether it ended because the task that waited was cancelled."""
        return self._phase == OVER and bool(self._is_cancelled)

    def cancel(self, msg: object = _NO_TASK) -> bool:
        """Stop waiting; say whether it was waiting.

        A task that is cancelled calls this with its message, or None, and gets `CancelledError`.
        Anybody else calls it without, as for any operation, and the task gets `Cancelled`.
        """
        if msg is _NO_TASK:
            return DelayedOperation.cancel(self)
        if self._phase == OVER:
            return False
        self._is_cancelled = True
        if self._phase == NEW:
            self._end()
        elif not DelayedOperation.cancel(self) and self._sj_state != CANCELLED:
            self._is_cancelled = False  # it has just ended
            return False
        self._outcome = msg
        return True

    def result(self) -> Any:
        """Return what the predicate returned, or True; False if the time ran out."""
        failure = self.exception()
        if failure is not None:
            raise failure
        if self._sj_state != COMPLETED:
            return False
        return True if self._outcome is None else self._outcome

    def exception(self) -> BaseException | None:
        """Return what `result` would raise, or None."""
        if self._phase != OVER:
            raise InvalidStateError("the wait is not over")
        if self._is_cancelled:
            raise self._make_cancelled_error()
        return self._outcome if self._has_failed else None

    def add_done_callback(
        self, fn: Callable[[Any], object], *, context: Context | None = None
    ) -> None:
        """Call `fn` with this object, soon after the wait is over."""
        if self._home is None:
            raise not_initialised(self)
        if self._phase == NEW:
            self._start()
        if context is None:
            context = copy_context()
        if self._phase == OVER:
            self._home.call_soon(fn, self, context)
        elif self._callback is None:
            self._callback = fn
            self._context = context
            hide(fn)
        else:
            self._set_callbacks([*self._callbacks(), (fn, context)])

    def remove_done_callback(self, fn: Callable[[Any], object]) -> int:
        """Do not call `fn`; return how many times it would have been called."""
        if self._phase == OVER:
            return 0
        callbacks = self._callbacks()
        kept = [(callback, context) for callback, context in callbacks if callback != fn]
        self._set_callbacks(kept)
        return len(callbacks) - len(kept)

    def _make_cancelled_error(self) -> CancelledError:  # gather asks for it by this name
        return CancelledError() if self._outcome is None else CancelledError(self._outcome)

    def _callbacks(self) -> list[Any]:
        if self._callback is None:
            return []
        if type(self._callback) is list:
            return self._callback
        return [(self._callback, self._context)]

    def _set_callbacks(self, callbacks: list[Any]) -> None:
        if self._callback is not None:
            unhide(self._callback)
        self._callback = callbacks or None
        self._context = None

    # Beginning and end.

    def _start(self) -> None:
        if self._home is None:
            raise not_initialised(self)
        self._home.check_running()
        self._phase = WAITING
        keys, self._keys = self._keys, None
        try:
            if self._predicate is None:
                requires, needed = keys
                self._home.core.try_complete_else_watch(self, requires=requires, needed=needed)
            else:
                self._home.core.try_complete_else_watch(self, keys)
        except BaseException as error:
            self._has_failed = True
            self._outcome = error
            self._end()

    def _end_from_here(self) -> None:
        """End the wait, in whatever thread this is."""
        if self._home is None:
            raise not_initialised(self)
        if self._home.is_here():
            self._end()
        else:
            self._home.call_soon(end, self, None)

    def _end(self) -> None:
        """Be over, and wake the tasks that wait; in the loop's thread."""
        self._phase = OVER
        self._predicate = None
        if self._sj_error is not None and not self._has_failed:
            self._has_failed = True
            self._outcome = as_raised(self._sj_error)
        if self._callback is not None:
            self._home.wake(self)

    def _tell(self) -> None:
        """Call those who wait for it; the loop calls this."""
        callback, context = self._callback, self._context
        self._callback = self._context = None
        if type(callback) is list:
            for other, context in callback:
                call(self._home, context, other, self)
        else:
            if cython.compiled and Py_REFCNT(callback) > 1:
                unhide(callback)
            call(self._home, context, callback, self)


def tell_all(home: Home) -> None:
    """Tell all whose waits have ended; for the loop to call."""
    waits, home._ended = home._ended, []
    count = 0
    try:
        for wait in waits:
            count += 1
            wait._tell()
    finally:
        if count < len(waits):  # KeyboardInterrupt or SystemExit; the others are told next time
            home._ended = waits[count:] + home._ended
            home.call_soon(tell_all, home, None)


def call(home: Home, context: Context, callback: Any, wait: Wait) -> None:
    """Call back, and take an error as the loop would."""
    try:
        context.run(callback, wait)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        home.loop.call_exception_handler(
            {"message": f"Exception in callback {shown(callback)}", "exception": error}
        )


def hide(callback: Any) -> None:
    """Compiled: hide a task's callback from the garbage collector, as the wait that holds it is.

    The collector looks at all that belongs to a waiting task, again and again; this is one object
    less for each. It changes nothing else: what a hidden wait holds is not collected in any case.
    """
    if cython.compiled and type(callback) is BuiltinFunctionType:
        PyObject_GC_UnTrack(callback)


def unhide(callback: Any) -> None:
    if (
        cython.compiled
        and type(callback) is BuiltinFunctionType
        and not PyObject_GC_IsTracked(callback)
    ):
        PyObject_GC_Track(callback)


def end(wait: Wait) -> None:
    """End the wait; for the loop to call."""
    wait._end()


def new_wait(
    home: Home, predicate: Any, keys: Any, requires: Any, needed: Any, timeout: Any
) -> Wait:
    """Return a new wait, or say what is wrong with what it is to wait for."""
    keys = checked_condition(predicate, keys, requires, needed)
    wait = Wait.__new__(Wait)
    wait._sj_delay_ms = _A_CENTURY_MS if timeout is None else as_ms(timeout, "timeout")
    wait._sj_run = OVERRIDDEN
    wait._home = home
    wait._predicate = predicate
    wait._keys = keys
    return wait


def awaited_already() -> AlreadyWaiting:
    return AlreadyWaiting(
        "this wait was awaited already; call wait() again, "
        "or make a task of it, which can be awaited often: create_task(purgatory.wait(...))"
    )


def as_raised(error: BaseException) -> BaseException:
    """Return what stands for the error in a coroutine, where StopIteration means the end."""
    if not isinstance(error, StopIteration):
        return error
    raised = RuntimeError("a callback raised StopIteration")
    raised.__cause__ = error
    return raised


if not cython.compiled:
    start_out(
        Wait,
        _blocking=NO_FUTURE,
        _callback=None,
        _context=None,
        _has_failed=False,
        _home=None,
        _is_cancelled=False,
        _keys=None,
        _outcome=None,
        _phase=NEW,
        _predicate=None,
        _steps=UNTOUCHED,
    )
