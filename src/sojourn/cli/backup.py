"""`sojourn backup`: a copy of what a service keeps, while it runs."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from typing import Any

from sojourn.cli.options import add_command
from sojourn.errors import BadFile, NoSuchFile, OutOfRange

_WAITS, _WEBHOOKS = "waits.db", "webhooks.json"  # as sojourn.service names them

_EXAMPLES = """\
DATA is the folder of `sojourn serve DATA`, which may be running, or the file of an embedded
purgatory. TARGET is new. It is whole or not there, synced, and as of one moment. To restore it,
start a service on it, or copy it to where the data was.

examples:
  sojourn backup waits backups/2026-01-06
  sojourn serve backups/2026-01-06            # what waited then waits on
  sojourn backup waits.db copy.db
"""


def add_parser(commands: Any) -> None:
    parser = add_command(
        commands,
        "backup",
        _run,
        help="copy what a service keeps, while it runs",
        description="Copy what a service or an embedded purgatory keeps, while it runs.",
        examples=_EXAMPLES,
    )
    parser.add_argument("data", type=Path, metavar="DATA")
    parser.add_argument("target", type=Path, metavar="TARGET")
    parser.add_argument(
        "--compact", action="store_true", help="leave out free pages, which takes longer"
    )


def _run(args: argparse.Namespace) -> int:
    from sojourn.durable.backup import backup

    if args.data.is_dir():
        size = _copy_folder(args.data, args.target, args.compact)
    else:
        size = backup(args.data, args.target, compact=args.compact)
    print(f"{args.target}: {size:,} bytes")
    return 0


def _copy_folder(data: Path, target: Path, compact: bool) -> int:
    from sojourn.durable.backup import backup
    from sojourn.durable.disk import sync

    if not (data / _WAITS).is_file():
        raise NoSuchFile(f"{data} has no {_WAITS}; it is not the data of a service")
    if target.exists():
        raise OutOfRange(f"{target} exists already; give a name that is free")
    partial = target.with_name(f"{target.name}.partial")
    try:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True, mode=0o700)
        size = backup(data / _WAITS, partial / _WAITS, compact=compact)
        if (data / _WEBHOOKS).exists():  # written in one step, so always whole
            shutil.copy2(data / _WEBHOOKS, partial / _WEBHOOKS)
            sync(partial / _WEBHOOKS)
        sync(partial)
        partial.rename(target)
        sync(target.parent)
    except OSError as error:
        if isinstance(error, BadFile):
            raise
        raise BadFile(f"{data} was not copied to {target}: {error}") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return size
