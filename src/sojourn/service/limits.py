"""Limits: how much of everything the service takes, and the name of each in errors.

Each can be set (`sojourn serve --limit rows=500`), and each has an error code of its own, so that
a client knows which one it met.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from sojourn.errors import OutOfRange


@dataclass(frozen=True)
class Limits:
    """The defaults; in brackets what `durable` takes at most."""

    body_bytes: int = 16 << 20  # too_large
    bodies_bytes: int = 128 << 20  # busy: of all large bodies at once
    rows: int = 10_000  # too_many_rows
    id_bytes: int = 1024  # id_too_long  [1024]
    key_bytes: int = 1024  # key_too_long  [1024]
    payload_bytes: int = 64 << 10  # payload_too_large  [1 MiB]
    requirements: int = 1_000  # too_many_requirements  [10,000]
    connections: int = 1_024  # too_many_connections
    streams: int = 256  # too_many_streams: server-sent events at once
    waiters: int = 10_000  # too_many_waiters: requests with wait_ms at once
    wait_ms: int = 60_000  # bad_parameter: the longest wait_ms
    outcomes: int = 10_000  # bad_parameter: the largest limit of a page
    header_ms: int = 10_000  # header_timeout: from the first byte to the end of the headers
    body_ms: int = 30_000  # body_timeout: from the first byte to the end of the request
    header_bytes: int = 64 << 10  # header_too_large
    subscriptions: int = 1_000  # too_many_subscriptions
    write_ms: int = 60_000  # a stream whose reader takes nothing for so long is closed

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if type(value) is not int or not 1 <= value <= 2**53:
                raise OutOfRange(f"limit {each.name} must be an integer ≥ 1, got {value!r}")

    @classmethod
    def parse(cls, texts: list[str]) -> Limits:
        """The defaults, but for what `NAME=VALUE` says."""
        names = {each.name for each in fields(cls)}
        chosen: dict[str, Any] = {}
        for text in texts:
            name, equals, value = text.partition("=")
            if name not in names or not equals:
                raise OutOfRange(
                    f"a limit is NAME=VALUE with one of the names {', '.join(sorted(names))}; "
                    f"got {text!r}"
                )
            try:
                chosen[name] = int(value.replace("_", ""))
            except ValueError:
                raise OutOfRange(f"limit {name} must be an integer ≥ 1, got {value!r}") from None
        return cls(**chosen)
