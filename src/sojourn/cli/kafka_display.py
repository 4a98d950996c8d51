"""What `sojourn kafka` shows while it runs: a table on a terminal, lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from sojourn.kafka import Cluster

_SHOW_EVERY_S = 0.25
_LINE_EVERY_S = 2.0


def watch(show: Callable[[], None], length_ms: int | None) -> None:
    """Show what waits, until the time is up or Ctrl-C."""
    until_s = None if length_ms is None else time.monotonic() + length_ms / 1_000
    while True:
        show()
        left_s = _SHOW_EVERY_S if until_s is None else until_s - time.monotonic()
        if left_s <= 0:
            return
        time.sleep(min(left_s, _SHOW_EVERY_S))


@contextmanager
def display(cluster: Cluster, *, quiet: bool) -> Iterator[Callable[[], None]]:
    """A function that shows the cluster: a table on a terminal, else lines."""
    if quiet:
        yield lambda: None
        return
    if sys.stdout.isatty():
        try:
            from rich.live import Live
        except ImportError:
            pass
        else:
            with Live(picture(cluster), auto_refresh=False) as live:
                yield lambda: live.update(picture(cluster), refresh=True)
            return
    lines = StatusLines(cluster)
    try:
        yield lines.show
    finally:
        lines.print()


class PurgatoryRow(NamedTuple):
    """What is shown of one purgatory."""

    name: str
    watched: int
    delayed: int
    completed: int
    expired: int
    waited: str


def rows(cluster: Cluster) -> list[PurgatoryRow]:
    """The cluster's purgatories as they are now."""
    table = []
    for purgatory in cluster.purgatories:
        metrics = purgatory.metrics()
        p50 = metrics.waiting.percentile_ms(50)
        p99 = metrics.waiting.percentile_ms(99)
        ended = metrics.completed + metrics.expired
        table.append(
            PurgatoryRow(
                purgatory.name,
                metrics.watched,
                metrics.delayed,
                metrics.completed,
                metrics.expired,
                f"{p50:,.1f} / {p99:,.1f} ms" if ended else "",
            )
        )
    return table


def picture(cluster: Cluster) -> Any:
    """A table of the purgatories, and the groups below it, for a terminal."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(title=f"purgatories of {cluster.bootstrap_servers}", title_justify="left")
    table.add_column("request")
    for name in ("watched", "delayed", "completed", "expired", "waited p50 / p99"):
        table.add_column(name, justify="right")
    for row in rows(cluster):
        style = "bold" if row.watched else "dim" if not row.completed + row.expired else ""
        counts = (f"{count:,}" for count in row[1:5])
        table.add_row(row.name, *counts, row.waited, style=style)
    return Group(table, *(Text(line) for line in groups(cluster)))


def groups(cluster: Cluster, most: int = 10) -> list[str]:
    """A line for each group, at most `most`."""
    with cluster.agenda:
        lines = [
            f"group {group.group_id}: {group.state.value}, generation {group.generation}, "
            f"{len(group.members)} members"
            for group in cluster.groups.values()
        ]
    more = len(lines) - most
    return [*lines[:most], f"and {more:,} groups more"] if more > 0 else lines


class StatusLines:
    """Prints a line when something has changed, at most every two seconds."""

    def __init__(self, cluster: Cluster, every_s: float = _LINE_EVERY_S) -> None:
        self._cluster = cluster
        self._every_s = every_s
        self._shown = rows(cluster)
        self._shown_s = time.monotonic()

    def show(self) -> None:
        """Print a line if something has changed and it is time to."""
        is_due = time.monotonic() - self._shown_s >= self._every_s
        if is_due and rows(self._cluster) != self._shown:
            self.print()

    def print(self) -> None:
        """Print how many requests of each kind wait, and how many have ended."""
        self._shown, self._shown_s = rows(self._cluster), time.monotonic()
        parts = [
            f"{row.name} {row.watched:,} waiting, {row.completed:,} completed, "
            f"{row.expired:,} expired"
            for row in self._shown
            if row.watched or row.completed or row.expired
        ]
        print("; ".join(parts) or "nothing has waited yet", flush=True)
