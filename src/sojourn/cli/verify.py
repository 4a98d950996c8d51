"""`sojourn verify`: does replaying the history give every outcome that was told?"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from sojourn.cli.options import add_command, add_spark
from sojourn.cli.progress import Progress, showing, watching
from sojourn.cli.session import session
from sojourn.core.time_texts import moment_text

if TYPE_CHECKING:
    from sojourn.history import Difference, Verification

_WAITS = "waits.db"  # as sojourn.service names it

_EXAMPLES = """\
DATA is the folder of `sojourn serve DATA`, which may be running, or the file of an embedded
durable.Purgatory; FOLDER is what --history named. The history's operations, signals and cancels
are replayed. The outcomes that this gives are compared, bit for bit, with those in the history and
with those that DATA still has.

Of a history whose first hours were removed some outcomes cannot be proven; they are counted, with
the reason, and are no differences.

examples:
  sojourn verify waits --history history
  sojourn verify waits --history history --engine spark --master 'local[4]' --json

exit status: 0 no differences, 1 differences, 2 bad usage or input, 130 interrupted
"""


def add_parser(commands: Any) -> None:
    parser = add_command(
        commands,
        "verify",
        _run,
        help="prove that replaying a service's history gives every outcome it told",
        description="Replay a history, and compare with every outcome that was told.",
        examples=_EXAMPLES,
    )
    parser.add_argument("data", metavar="DATA", type=Path)
    parser.add_argument("--history", metavar="FOLDER", type=Path, required=True)
    parser.add_argument(
        "--engine",
        choices=("local", "spark"),
        default=None,
        help="local, the default: in this process; spark, also meant by --master",
    )
    parser.add_argument(
        "--show", metavar="N", type=int, default=20, help="how many differences to list; default 20"
    )
    add_spark(parser)
    group = parser.add_argument_group("what is said")
    group.add_argument("--json", action="store_true", help="say what came out as JSON")
    group.add_argument("--quiet", action="store_true", help="no progress on stderr")


def _run(args: argparse.Namespace) -> int:
    began_s = perf_counter()
    engine = args.engine or ("spark" if args.master else "local")
    with showing(quiet=args.quiet) as progress:
        verification = (
            _on_spark(args, progress) if engine == "spark" else _verify(args, progress, None)
        )
    say = _as_json if args.json else _as_text
    print(say(verification, perf_counter() - began_s))
    return 0 if verification.is_proven else 1


def _on_spark(args: argparse.Namespace, progress: Progress) -> Verification:
    progress.step("starting Spark")
    with session(args, {}) as spark, watching(spark, progress):
        return _verify(args, progress, spark)


def _verify(args: argparse.Namespace, progress: Progress, spark: Any) -> Verification:
    from sojourn import history

    data = args.data / _WAITS if args.data.is_dir() else args.data
    return history.verify(
        data, args.history, spark=spark, show=max(0, args.show), step=progress.step
    )


def _as_text(verification: Verification, took_s: float) -> str:
    rows = verification.rows
    first, last = (
        moment_text(ms, "seconds") for ms in (verification.first_ms, verification.last_ms)
    )
    lines = [
        f"history    {first} to {last}, "
        f"{verification.hours} {_plural(verification.hours, 'hour')}: "
        f"{rows['operations']:,} operations, "
        f"{rows['signals']:,} signals, {rows['cancels']:,} cancels, {rows['outcomes']:,} outcomes",
        f"proven     {verification.proven:,} outcomes are what the replay gives; "
        f"{verification.in_data:,} are in the data file, and the same",
        f"waiting    {verification.waiting:,}",
    ]
    if not verification.is_complete:
        lines.append("           the history does not begin with the first batch of the data file")
    for reason, count in verification.unproven.items():
        if count:
            lines.append(f"not proven {count:,}: {reason}")
    for kind, count in verification.counts.items():
        lines.append(f"differs    {count:,}: {kind}")
    lines += [_line(difference) for difference in verification.differences]
    total = sum(verification.counts.values())
    if total > len(verification.differences):
        lines.append(f"  … and {total - len(verification.differences):,} more; --show lists more")
    verdict = (
        "no differences" if verification.is_proven else f"{total:,} {_plural(total, 'difference')}"
    )
    lines.append(f"{verdict} ({verification.engine}, {took_s:.1f} s)")
    return "\n".join(lines)


def _line(difference: Difference) -> str:
    line = f"  {difference.name}: {difference.kind}"
    if difference.told is not None:
        line += f"; told {_end(difference.told)}"
    if difference.replayed is not None:
        line += f"; replay {_end(difference.replayed)}"
    return line


def _end(end: dict[str, Any] | str) -> str:
    if isinstance(end, str):
        return end
    if end["at_ms"] is None:
        return str(end["status"])
    by = f" by {end['by_key']!r}" if end["by_key"] is not None else ""
    return f"{end['status']} at {end['at_ms']}{by} after {end['waited_ms']} ms"


def _as_json(verification: Verification, took_s: float) -> str:
    fields = {
        "engine": verification.engine,
        "seconds": round(took_s, 3),
        "first_ms": verification.first_ms,
        "last_ms": verification.last_ms,
        "hours": verification.hours,
        "removed_hours": verification.removed_hours,
        "is_complete": verification.is_complete,
        "rows": verification.rows,
        "proven": verification.proven,
        "in_data": verification.in_data,
        "waiting": verification.waiting,
        "not_proven": {reason: count for reason, count in verification.unproven.items() if count},
        "differs": verification.counts,
        "differences": [difference._asdict() for difference in verification.differences],
    }
    return json.dumps(fields, ensure_ascii=False)


def _plural(count: int, word: str) -> str:
    return word if count == 1 else f"{word}s"
