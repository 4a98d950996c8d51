"""`sojourn serve`: durable waits behind HTTP."""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sojourn.cli.options import add_command, duration_ms
from sojourn.errors import BadFile

if TYPE_CHECKING:
    from sojourn.service import Service

_SHORTEST_SECRET = 16
_EXAMPLES = """\
DATA is a folder, which is made if it is not there; the waits are in DATA/waits.db. SIGTERM or
Ctrl-C ends the service: requests under way are answered, and what waits goes on waiting in the
file.

Only this machine can connect, unless --host says otherwise; then a token file is needed, with a
line `scope[,scope] TOKEN` for each token (scopes read, write, admin).

examples:
  sojourn serve waits
  sojourn serve waits --host 0.0.0.0 --token-file tokens --host-name waits.example.com
  sojourn serve waits --webhook-allow https://shop.example.com/hooks/ --limit rows=1000
"""


def add_parser(commands: Any) -> None:
    parser = add_command(
        commands,
        "serve",
        _run,
        help="serve durable waits over HTTP, with a dashboard",
        description="Serve durable waits over HTTP, with a dashboard.",
        examples=_EXAMPLES,
    )
    parser.add_argument("data", metavar="DATA", type=Path, help="the folder with the waits")
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        help="where to listen; only this machine can connect unless told otherwise",
    )
    parser.add_argument(
        "--port", type=int, default=8080, help="0 takes whichever is free; default 8080"
    )
    parser.add_argument(
        "--token-file", type=Path, metavar="FILE", help="who may do what; lines `scope TOKEN`"
    )
    parser.add_argument(
        "--host-name",
        action="append",
        default=[],
        metavar="NAME",
        help="a name that clients use for this service, besides the loopback names; repeatable",
    )
    parser.add_argument(
        "--webhook-allow",
        action="append",
        default=[],
        metavar="URL",
        help="webhooks may go to URLs that begin so; repeatable; default: nowhere",
    )
    parser.add_argument(
        "--webhook-secret-file",
        type=Path,
        metavar="FILE",
        help="signs the webhooks that have no secret of their own",
    )
    parser.add_argument(
        "--max-waiting",
        type=int,
        metavar="N",
        help="so many operations wait at most; default: no limit",
    )
    parser.add_argument(
        "--retention",
        type=duration_ms,
        default=7 * 86_400_000,
        metavar="DURATION",
        help="how long ended operations stay readable; default 7d",
    )
    parser.add_argument(
        "--limit",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a limit of the service, see docs/service.md; repeatable",
    )
    parser.add_argument(
        "--history",
        type=Path,
        metavar="FOLDER",
        help="keep everything that is taken and told as Parquet, for replay and `sojourn verify`",
    )
    parser.add_argument(
        "--sample-traffic", action="store_true", help="make some traffic, to look at"
    )
    parser.add_argument("--quiet", action="store_true", help="log only what is wrong")


def _run(args: argparse.Namespace) -> int:
    from sojourn.service import Limits, Settings, Tokens, serve

    logging.basicConfig(
        level=logging.WARNING if args.quiet else logging.INFO,
        format="%(asctime)s %(levelname)s %(message)s",
        stream=sys.stderr,
    )
    for noisy in ("httpx", "httpcore"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    serve(
        Settings(
            data=args.data,
            host=args.host,
            port=args.port,
            tokens=Tokens() if args.token_file is None else Tokens.read(args.token_file),
            host_names=tuple(args.host_name),
            webhook_allow=tuple(args.webhook_allow),
            webhook_secret=_secret(args.webhook_secret_file),
            max_waiting=args.max_waiting,
            retention_ms=args.retention,
            history=args.history,
            sample_traffic=args.sample_traffic,
            limits=Limits.parse(args.limit),
        ),
        started=_say,
    )
    return 0


def _secret(file: Path | None) -> str | None:
    if file is None:
        return None
    secret = file.read_text(encoding="utf-8").strip()
    if len(secret.encode()) < _SHORTEST_SECRET:
        raise BadFile(
            f"the secret in {file} has less than {_SHORTEST_SECRET} bytes; "
            "make one with: openssl rand -hex 32"
        )
    return secret


def _say(address: str, service: Service) -> None:
    waiting = len(service.purgatory)
    print(f"listening on {address}, dashboard at {address}/", flush=True)
    print(f"waits in {service.settings.file}: {waiting:,} operations", flush=True)
