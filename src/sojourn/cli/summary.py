"""What came out, for people and for scripts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sojourn.report import Summary
from sojourn.report.units import count, duration, share

_REASONS = 12


def as_text(summary: Summary, took_s: float, engine: str, places: dict[str, Path]) -> str:
    """A few lines that a person can read."""
    whole = summary.operations
    lines = [f"{count(whole)} operations, {took_s:.1f} s, {engine}"]

    def line(name: str, number: int, more: str = "") -> None:
        lines.append(f"  {name:10}{count(number):>13}  {share(number, whole):>9}  {more}".rstrip())

    for waits in summary.waits:
        more = ""
        if waits.median_ms is not None and waits.p99_ms is not None:
            more = f"p50 {duration(waits.median_ms)}, p99 {duration(waits.p99_ms)}"
        line(waits.status, waits.count, more)
    if summary.pending is not None:
        line("pending", summary.pending)
    if summary.rejected is not None:
        line("rejected", summary.rejected_operations)
    if summary.rejected:
        lines.append(f"{count(summary.rejected_rows)} rejected rows")
        reasons = sorted(summary.rejected.items(), key=lambda one: (-one[1], one[0]))
        for (table, reason), number in reasons[:_REASONS]:
            lines.append(f"  {count(number):>10}  {table}: {reason}")
        if len(reasons) > _REASONS:
            rest = sum(number for _, number in reasons[_REASONS:])
            lines.append(f"  {count(rest):>10}  for {len(reasons) - _REASONS} other reasons")
    lines += [f"{name:9} {place}" for name, place in places.items()]
    return "\n".join(lines)


def as_json(summary: Summary, took_s: float, engine: str, places: dict[str, Path]) -> str:
    """The same as one JSON object on one line."""
    rejected: dict[str, dict[str, int]] = {}
    for (table, reason), number in sorted((summary.rejected or {}).items()):
        rejected.setdefault(table, {})[reason] = number
    fields: dict[str, Any] = {
        "engine": engine,
        "seconds": round(took_s, 3),
        "operations": summary.operations,
        **{waits.status: waits.count for waits in summary.waits},
        "pending": summary.pending,
        "rejected": summary.rejected_operations,
        "rejected_rows": summary.rejected_rows,
        "reasons": rejected,
        "waited_ms": {
            waits.status: {
                "median": waits.median_ms,
                "p99": waits.p99_ms,
                "longest": waits.longest_ms,
            }
            for waits in summary.waits
        },
        "files": {name: str(place) for name, place in places.items()},
    }
    return json.dumps(fields, ensure_ascii=False)
