"""Names of parametrised tests: as `repr`, without addresses, so that all workers have the same."""

from __future__ import annotations

import re


def plain(value: object) -> str:
    """The value as a test's name says it."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))
