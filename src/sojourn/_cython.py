"""Stand-ins for the few names of the `cython` module that our sources use, for running without it."""

from typing import TypeVar

_Class = TypeVar("_Class", bound=type)

compiled = False


def no_gc(cls: _Class) -> _Class:
    return cls


def final(cls: _Class) -> _Class:
    return cls
