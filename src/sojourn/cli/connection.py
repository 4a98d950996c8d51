"""What the commands that talk to a service take: where it is, and the token."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from sojourn.cli.answers import add_json
from sojourn.cli.options import duration_ms, read_file
from sojourn.errors import BadFile

if TYPE_CHECKING:
    from sojourn.client import Client


def add_service(parser: argparse.ArgumentParser) -> None:
    """Add what a command takes that talks to a service, and `--json` for what it says."""
    add_json(parser)
    group = parser.add_argument_group("the service")
    group.add_argument(
        "--url", metavar="URL", help="default $SOJOURN_URL, else http://127.0.0.1:8080"
    )
    group.add_argument(
        "--token-file",
        type=Path,
        metavar="FILE",
        help="a file with the token and nothing else; default $SOJOURN_TOKEN",
    )
    group.add_argument(
        "--call-timeout",
        type=duration_ms,
        default=30_000,
        metavar="DURATION",
        help="how long to try again where there is no answer; default 30s",
    )


@contextmanager
def connected(args: argparse.Namespace) -> Iterator[Client]:
    """A client of the service that the options name."""
    from sojourn.client import Client

    token = None if args.token_file is None else _read_token(args.token_file)
    with Client(args.url, token, call_timeout_ms=max(1, args.call_timeout)) as client:
        yield client


def _read_token(path: Path) -> str:
    try:
        return read_file(path, "token file").decode().strip()
    except UnicodeDecodeError as error:
        raise BadFile(f"the token file {path} cannot be read: {error}") from None
