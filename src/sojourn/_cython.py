"""Stand-ins for the few names of the `cython` module that our sources use, to run without it."""

from collections.abc import Callable
from contextlib import nullcontext
from typing import TypeVar

_Class = TypeVar("_Class", bound=type)
_Thing = TypeVar("_Thing")

compiled = False
NULL = None
nogil = nullcontext()


def cclass(cls: _Class) -> _Class:
    return cls


def no_gc(cls: _Class) -> _Class:
    return cls


def cast(_kind: object, thing: _Thing) -> _Thing:
    return thing


def freelist(_size: int) -> Callable[[_Class], _Class]:
    return cclass
