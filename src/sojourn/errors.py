"""What can go wrong, under one base class; each is also the built-in error that users expect."""


class SojournError(Exception):
    """The base of every error that Sojourn raises."""


class WrongType(SojournError, TypeError):
    """An argument is of a kind that cannot mean anything here."""


class OutOfRange(SojournError, ValueError):
    """An argument is of the right kind and outside what is allowed."""


class Closed(SojournError, RuntimeError):
    """The timer or purgatory was closed; make a new one."""


class AlreadyWaiting(SojournError, RuntimeError):
    """The task or operation waits elsewhere; cancel it there first."""


class NotInitialised(SojournError, RuntimeError):
    """The object's `__init__` was never run; call `super().__init__()` in the subclass."""


class AlreadyInitialised(SojournError, RuntimeError):
    """`__init__` was called a second time; make a new object."""


class Cancelled(SojournError, RuntimeError):
    """The operation that was waited for has been cancelled, for instance by its key."""


class Full(SojournError, RuntimeError):
    """As many operations wait as are allowed (`max_waiting`); try later."""


class IdTaken(SojournError, ValueError):
    """The id was submitted before with other content; use another id."""


class NotWritten(SojournError, OSError):
    """The disk did not take the command, and it was not acknowledged; try again."""


class InUse(SojournError, RuntimeError):
    """Another process has the file open."""


class Missed(SojournError, LookupError):
    """Retention removed outcomes before they were read; `last` is the last one that is gone."""

    last: int

    def __init__(self, message: str, last: int = 0) -> None:
        super().__init__(message)
        self.last = last


class TimedOut(SojournError, TimeoutError):
    """What was waited for did not come to be in time."""


class Unreachable(SojournError, ConnectionError):
    """The service gave no answer in time; sending again is safe."""


class Unauthorized(SojournError, PermissionError):
    """The service wants a token, or one that may do more."""


class ServiceError(SojournError, RuntimeError):
    """The service answered with something unexpected; `code` is the service's word for it."""

    code: str

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(message)
        self.code = code


class Forked(SojournError, RuntimeError):
    """The timer was made before this process was forked and does not run here; make a new one."""


class TaskReleased(SojournError, RuntimeError):
    """The task has run or was cancelled and has released its callback; make a new task."""


class WrongThread(SojournError, RuntimeError):
    """Something of an event loop's was called from outside its thread."""


class Reentered(SojournError, RuntimeError):
    """A finaliser or signal handler called back in the middle of a change (interpreted build)."""


class BadTable(SojournError, ValueError):
    """A table lacks a column, or has one of a type that cannot mean anything here."""


class BadFile(SojournError, OSError):
    """A file cannot be read as what it is said to be, or not be written."""


class NoSuchFile(BadFile, FileNotFoundError):
    """There is nothing under that name, or nothing that is data."""


class UnitWarning(UserWarning):
    """Numbers in a column of times look like seconds or microseconds, not like milliseconds."""
