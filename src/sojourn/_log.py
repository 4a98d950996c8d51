"""The package's logger, and how things are shown in it."""

from __future__ import annotations

import logging

log = logging.getLogger("sojourn")


def shown(thing: object) -> str:
    """Return the thing's repr; also if its own `__repr__` fails."""
    try:
        return repr(thing)
    except Exception:
        return object.__repr__(thing)
