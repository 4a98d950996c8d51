"""Settings: what the service was started with."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from sojourn.service.limits import Limits
from sojourn.service.tokens import Tokens

WEEK_MS = 7 * 86_400_000


@dataclass(frozen=True)
class Settings:
    """What the service was started with; nothing of it changes while it runs."""

    data: Path  #: the folder with waits.db
    host: str = "127.0.0.1"
    port: int = 8080
    tokens: Tokens = field(default_factory=Tokens)  #: none: everybody who reaches it may do all
    host_names: tuple[str, ...] = ()  #: besides the loopback names, for the Host header
    webhook_allow: tuple[str, ...] = ()  #: URLs, or what they begin with
    webhook_secret: str | None = None  #: for webhooks that have none of their own
    webhook_retry_ms: int = 1_000  #: before the second try
    webhook_retry_most_ms: int = 300_000  #: between later ones
    webhook_concurrency: int = 8  #: POSTs at once, of all subscriptions together
    max_waiting: int | None = None
    retention_ms: int = WEEK_MS
    history: Path | None = None  #: where everything is kept as Parquet
    sample_traffic: bool = False  #: whether to make traffic to look at
    heartbeat_ms: int = 15_000  #: between comment lines of a silent event stream
    limits: Limits = field(default_factory=Limits)

    @property
    def file(self) -> Path:
        """Where the waits are."""
        return self.data / "waits.db"
