"""What a timer and a purgatory on an event loop have in common.

Each is a face before one of the core's, which does the work: the core counts milliseconds and may
be used from any thread, the face takes seconds where asyncio would and keeps to its loop.
"""

from __future__ import annotations

from typing import Any, TypeVar

from sojourn.core.alike import already_initialised, not_copied, not_initialised

Self = TypeVar("Self", bound="Face")


class NotYet:
    """Stands for a field that `__init__` sets: to ask for it earlier is an error."""

    def __get__(self, owner: object, kind: type | None = None) -> Any:
        if owner is None:
            return self
        raise not_initialised(owner)


class Face:
    """A timer or purgatory of the core, on an event loop."""

    _sj_core: Any = NotYet()
    _sj_loop: Any = NotYet()

    @property
    def name(self) -> str:
        """What logs call it."""
        return self._sj_core.name  # type: ignore[no-any-return]

    def close(self) -> int:
        raise NotImplementedError

    def __enter__(self: Self) -> Self:
        self._sj_check_initialised()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self: Self) -> Self:
        self._sj_check_initialised()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        if self._sj_is_new():
            return f"<aio.{type(self).__name__} not initialised>"
        return f"<aio.{repr(self._sj_core)[1:]}"

    def __reduce__(self) -> Any:
        raise not_copied(self)

    def _sj_is_new(self) -> bool:
        return "_sj_core" not in vars(self)

    def _sj_check_new(self) -> None:
        if not self._sj_is_new():
            raise already_initialised(self)

    def _sj_check_initialised(self) -> None:
        if self._sj_is_new():
            raise not_initialised(self)
