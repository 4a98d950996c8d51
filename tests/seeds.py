"""The seed of this run: a new one each time, or SOJOURN_SEED to see a failure again.

pytest prints it at the start and beside each failure. All processes of a run have the same one.
"""

from __future__ import annotations

import os
import random

_NAME = "SOJOURN_SEED"


def seed() -> int:
    """Draw one if none was given; after that it is the same for the whole run."""
    return int(os.environ.setdefault(_NAME, str(random.SystemRandom().randrange(10**9))))


def line() -> str:
    """What to set to run with this seed again."""
    return f"{_NAME}={seed()}"
