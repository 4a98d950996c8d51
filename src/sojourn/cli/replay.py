"""`sojourn replay`: how operations in files ended, here or on Spark."""

from __future__ import annotations

from typing import Any


def add_parser(commands: Any) -> None:
    commands.add_parser("replay", help="say how operations in files ended, here or on Spark")
