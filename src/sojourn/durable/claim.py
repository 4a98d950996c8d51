"""The claim: one process at a time has the file. The lock beside it says which."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable

from sojourn.errors import BadFile, InUse

if sys.platform == "win32":
    import msvcrt

    def _lock(descriptor: int) -> None:
        os.lseek(descriptor, 1 << 30, os.SEEK_SET)  # the pid stays readable
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


_held: set[int] = set()  # descriptors


def _close_held() -> None:
    """In a forked child, which would keep the lock when its parent has ended."""
    for descriptor in _held:
        os.close(descriptor)
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_held)


def claim(path: str) -> Callable[[], None]:
    """Claim the file for this process; return what releases it.

    The operating system releases it too, however the process ends.
    """
    lock_path = f"{path}-lock"
    try:
        descriptor = os.open(lock_path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o644)
    except OSError as error:
        raise BadFile(f"{lock_path} cannot be opened: {error}") from error
    try:
        _lock(descriptor)
    except OSError:
        os.lseek(descriptor, 0, os.SEEK_SET)
        holder = os.read(descriptor, 32).decode(errors="replace").strip() or "unknown"
        os.close(descriptor)
        raise InUse(
            f"{path} is open in process {holder}; one process at a time has it, "
            "others talk to that one"
        ) from None
    _held.add(descriptor)
    with contextlib.suppress(OSError):  # a full disk: the lock holds, only the pid is not told
        os.ftruncate(descriptor, 0)
        os.lseek(descriptor, 0, os.SEEK_SET)
        os.write(descriptor, b"%d\n" % os.getpid())

    def release() -> None:
        if descriptor in _held:
            _held.remove(descriptor)
            os.close(descriptor)

    return release
