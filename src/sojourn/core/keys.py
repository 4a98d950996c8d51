"""Keys: what operations wait on. Any hashable object, also one with code of the user's.

The look-up of a key may call its `__hash__` and `__eq__`, which may be the user's. So keys are
looked up between atomic steps, and what was found is looked at again in the next step. Inside a
step a key is taken out of a dictionary only by identity.
"""

from __future__ import annotations

try:
    import cython
except ImportError:  # pragma: no cover - depends on what is installed
    from sojourn import _cython as cython

from collections.abc import Hashable
from typing import Any

from sojourn.core.guard import GUARD
from sojourn.errors import OutOfRange, WrongType


class Key:
    """Stands in the dictionary for a key whose `__hash__` or `__eq__` may be the user's code.

    The hash is asked for once, before anything is changed. Inside an atomic step, where only
    keys that are in the dictionary already are looked up, two are equal if they are the same
    object: so no user code can run there, not even for keys whose hashes collide.
    """

    __slots__ = ("hash", "key")

    def __init__(self, key: Hashable) -> None:
        self.key = key
        self.hash = hash(key)

    def __hash__(self) -> int:
        return self.hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if _by_identity if cython.compiled else GUARD.held_here():
            return False
        key = other.key if isinstance(other, Key) else other
        return self.key is key or bool(self.key == key)


_by_identity = False


def remove_key(keys: dict[Any, Any], key: Any) -> None:
    """A raw step: take the key, the very object that is in it, out of the dictionary."""
    if cython.compiled:
        global _by_identity
        _by_identity = True
        del keys[key]
        _by_identity = False
    else:  # `Key` goes by the guard
        del keys[key]


def as_key(key: Any) -> Any:
    """Return what stands for the key in the dictionary, or say that it cannot be a key."""
    if is_plain(key):
        return key
    try:
        return Key(key)
    except TypeError:
        raise WrongType(f"key {key!r} is not hashable; use a tuple or a string") from None


def user_key(key: Any) -> Any:
    """Return the key as the user gave it."""
    return key.key if isinstance(key, Key) else key


def is_plain(key: Any) -> bool:
    """Whether looking the key up runs no code of the user's, and neither does dropping it."""
    kind = type(key)
    return kind is str or kind is int or kind is bytes or kind is Key


def checked_keys(keys: Any) -> Any:
    """Return the keys as a tuple of one or more hashable things, or say what is wrong."""
    if type(keys) is not list and type(keys) is not tuple:
        if isinstance(keys, (str, bytes)):
            raise WrongType(f"keys must be a list of keys, got {keys!r}; for one key: [{keys!r}]")
        try:
            keys = list(keys)
        except TypeError:
            raise WrongType(f"keys must be a list of keys, got {keys!r}") from None
    if not keys:
        raise OutOfRange(
            "keys is empty: nothing could ever complete the operation; give at least one key"
        )
    for key in keys:
        if not is_plain(key):
            return tuple([as_key(key) for key in keys])
    return keys if type(keys) is tuple else tuple(keys)
