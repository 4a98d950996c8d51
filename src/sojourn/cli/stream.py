"""`sojourn stream`: how operations end while their rows arrive, on Spark."""

from __future__ import annotations

from typing import Any


def add_parser(commands: Any) -> None:
    commands.add_parser("stream", help="say how operations end as their rows arrive, on Spark")
