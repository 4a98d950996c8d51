"""`sojourn state`: what a stream's checkpoint holds."""

from __future__ import annotations

import argparse
import json
from typing import Any

from sojourn.cli.options import add_command, add_spark
from sojourn.cli.session import session
from sojourn.core.time_texts import moment_text

_EXAMPLES = """\
CHECKPOINT is the folder that `sojourn stream --checkpoint` was given; the stream may be running.
It is read as of the last batch that is done, and left as it is.

examples:
  sojourn state checkpoint                    # time, sources, how much is held, shard by shard
  sojourn state checkpoint --id order-7       # what an operation waits for
  sojourn state checkpoint --key stock/mug    # how far a key has come, and who waits for it
"""


def add_parser(commands: Any) -> None:
    parser = add_command(
        commands,
        "state",
        _run,
        help="look into the checkpoint of a stream",
        description="Say what the checkpoint of a stream holds.",
        examples=_EXAMPLES,
    )
    parser.add_argument("checkpoint", metavar="CHECKPOINT")
    parser.add_argument("--id", action="append", default=[], help="say what is known of this id")
    parser.add_argument("--key", action="append", default=[], help="say what is known of this key")
    parser.add_argument("--json", action="store_true", help="say it as JSON, an object a line")
    add_spark(parser)


def _run(args: argparse.Namespace) -> int:
    with session(args, {}) as spark:
        from sojourn.spark import Checkpoint, contents, stream_settings
        from sojourn.spark.checkpoints import IDS, KEYS

        stream_settings(spark)
        checkpoint = Checkpoint(spark, args.checkpoint)
        keys, ids = (checkpoint.shards(stage).orderBy("shard").collect() for stage in (KEYS, IDS))
    of_keys, of_ids = ([row["snapshot"] for row in rows] for rows in (keys, ids))
    rows = [contents.of_id(id, of_ids, of_keys) for id in args.id]
    rows += [contents.of_key(key, of_keys) for key in args.key]
    if not rows:
        whole = _whole(checkpoint.batch, keys, ids)
        print(json.dumps(whole) if args.json else _text(whole))
    for row in rows:
        print(json.dumps(row, ensure_ascii=False, indent=None if args.json else 2))
    return 0


def _whole(batch: int, keys: list[Any], ids: list[Any]) -> dict[str, Any]:
    from sojourn.spark.pace import SOURCES

    first = keys[0]
    return {
        "batch": batch,
        "time_ms": first["now_ms"],
        "sources": {
            name: {"latest_ms": latest_ms, "last_news_wall_ms": news_ms}
            for name, latest_ms, news_ms in zip(
                SOURCES, first["latest_ms"], first["news_ms"], strict=True
            )
        },
        "held": {
            "keys": sum(row["names"] for row in keys),
            "ids": sum(row["names"] for row in ids),
            "operations": sum(row["waiting"] for row in ids),
        },
        "shards": [
            {
                "shard": key["shard"],
                "keys": key["names"],
                "requirements": key["waiting"],
                "ids": id["names"],
                "operations": id["waiting"],
                "stored_bytes": sum(row["snapshot_bytes"] + row["log_bytes"] for row in (key, id)),
                "memory_bytes": key["nbytes"] + id["nbytes"],
                "log_entries": key["log_entries"] + id["log_entries"],
            }
            for key, id in zip(keys, ids, strict=True)
        ],
    }


def _text(whole: dict[str, Any]) -> str:
    held = whole["held"]
    lines = [
        f"batch {whole['batch']}, time {_moment(whole['time_ms'])}",
        f"{held['operations']:,} operations wait; {held['keys']:,} keys and {held['ids']:,} ids "
        "are held",
    ]
    for name, source in whole["sources"].items():
        if source["latest_ms"] is not None:
            lines.append(f"  {name:11} have come up to {_moment(source['latest_ms'])}")
    columns = list(whole["shards"][0])
    rows = [columns, *([f"{shard[name]:,}" for name in columns] for shard in whole["shards"])]
    widths = [max(len(row[n].replace("_", " ")) for row in rows) for n in range(len(columns))]
    for row in rows:
        cells = zip(row, widths, strict=True)
        lines.append("  ".join(cell.replace("_", " ").rjust(width) for cell, width in cells))
    return "\n".join(lines)


def _moment(at_ms: int | None) -> str:
    return "not known yet" if at_ms is None else f"{at_ms} ({moment_text(at_ms)})"
