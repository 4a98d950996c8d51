"""What keeps the two builds alike, where Python and compiled classes differ by nature.

A compiled object has all its fields from the moment it is made: numbers are 0, references None.
So `cls.__new__(cls)`, or a subclass that forgets `super().__init__()`, gives an object that can
be looked at and found to be empty. `start_out` gives interpreted objects the same beginning.

Names that begin with `_sj_` are Sojourn's own, in classes that users subclass. Compiled, fields
have no names that Python could see, and interpreted ones must not collide with a user's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sojourn.errors import AlreadyInitialised, NotInitialised, WrongType


def start_out(cls: Any, fresh: dict[str, Callable[[], Any]] | None = None, **fields: Any) -> None:
    """Make new objects of an interpreted class begin with these fields, before `__init__`.

    `fresh` names fields that get a new object each.
    """
    make = cls.__new__

    def new(kind: Any, *_: Any, **__: Any) -> Any:
        made = make(kind)
        for name, value in fields.items():
            setattr(made, name, value)
        for name, factory in (fresh or {}).items():
            setattr(made, name, factory())
        return made

    cls.__new__ = staticmethod(new)


def not_initialised(thing: object) -> NotInitialised:
    """The error for an object whose `__init__` was never run."""
    name = type(thing).__name__
    return NotInitialised(
        f"this {name} was never initialised; "
        f"a subclass that has an __init__ of its own must call super().__init__() first"
    )


def already_initialised(thing: object) -> AlreadyInitialised:
    """The error for an object whose `__init__` is run again."""
    name = type(thing).__name__
    return AlreadyInitialised(f"this {name} is initialised already; make a new one")


def not_copied(thing: object) -> WrongType:
    """The error for an object that is to be copied or pickled."""
    name = type(thing).__name__
    return WrongType(f"a {name} cannot be copied or pickled: it has one life; make a new one")
