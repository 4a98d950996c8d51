"""Head: the small part of a shard's state that every batch reads."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from sojourn.spark.pace import Pace

TOKEN_BYTES = 8
PART_BYTES = 1 << 20  # of a snapshot

# As it is written down: the columns of `head_of`.
PACE = [
    ("now_ms", pa.int64()),
    ("latest_ms", pa.list_(pa.int64())),
    ("news_ms", pa.list_(pa.int64())),
]
_NUMBERS = ("snapshot_bytes", "log_bytes", "next_ms", "names", "waiting")
HEAD = pa.schema([("tokens", pa.binary()), *((name, pa.int64()) for name in _NUMBERS), *PACE])


@dataclass(slots=True)
class Head:
    """A shard's version and the numbers that are read even when its engine is not needed."""

    tokens: bytes = b""  # of the snapshot, then of each entry; none: the shard is new
    snapshot_bytes: int = 0
    log_bytes: int = 0
    next_ms: int | None = None  # the engine has nothing to do before, unless rows arrive
    names: int = 0  # how many keys or ids it knows
    waiting: int = 0  # how many requirements or operations wait
    pace: Pace = field(default_factory=Pace)

    def is_due(self, now_ms: int | None) -> bool:
        """Say whether the engine has something to do although no rows have arrived."""
        return self.next_ms is not None and now_ms is not None and self.next_ms <= now_ms

    @property
    def entries(self) -> int:
        """How many the log has."""
        return max(0, len(self.tokens) // TOKEN_BYTES - 1)

    def entries_until(self, token: bytes) -> int | None:
        """Return how many entries an engine with this token has seen.

        None if the token is not there: the engine saw a batch that failed.
        """
        places = range(0, len(self.tokens), TOKEN_BYTES)
        tokens = [self.tokens[at : at + TOKEN_BYTES] for at in places]
        return tokens.index(token) if token in tokens else None


def head_of(state: Any) -> Head:
    """Return the head that Spark's state holds."""
    tokens, snapshot_bytes, log_bytes, next_ms, names, waiting, now_ms, latest_ms, news_ms = state
    pace = Pace(now_ms, tuple(latest_ms), tuple(news_ms))
    return Head(bytes(tokens), snapshot_bytes, log_bytes, next_ms, names, waiting, pace)


def parts_of(size: int) -> int:
    """Return into how many parts a snapshot of this many bytes is cut."""
    return -(-size // PART_BYTES)
