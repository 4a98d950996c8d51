"""Watch a purgatory under load, in the terminal.

    python -m examples.watch [--seconds N] [--picture FILE]

The load is the pretended cluster of `examples.cluster`. The purgatory, its timer and the wheel
are real: the picture is drawn from `purgatory.metrics()` and `timer.snapshot()`. In the second
quarter of the run one broker stalls, in the last quarter another. `--picture` writes the last
frame as an SVG file. Where the output is not a terminal, a few plain lines tell the same story.
"""

from __future__ import annotations

import argparse
import io
import math
import platform
import re
import threading
from time import monotonic
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.text import Text

from examples.cluster import BROKERS, PARTITIONS, REQUESTS_PER_SECOND, Cluster
from sojourn import Purgatory, compiled, prompt_switching

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from sojourn.core import HistogramSnapshot, LevelSnapshot, PurgatoryMetrics, WheelSnapshot

WIDTH = 80
FRAMES_PER_SECOND = 8
STALLS = (None, 5, None, 2)  # which broker stalls, in each quarter of the run
BUILD = f"{'compiled' if compiled else 'interpreted'}, Python {platform.python_version()}"

_BARS = " ▁▂▃▄▅▆▇█"
_SHADES = ("#2e6f95", "#2a9d8f", "#8ab17d", "#e9c46a", "#f4a261", "#e76f51")
_CELL = 3  # columns to a bucket
_SPARKS = 34  # columns to the history of a rate
_DIM = "grey50"


class Watch:
    """The story of one run: what is drawn, from the first frame to the last."""

    def __init__(self, purgatory: Purgatory, cluster: Cluster, seconds: float) -> None:
        self._purgatory = purgatory
        self._cluster = cluster
        self._seconds = seconds
        self._began = monotonic()
        self._seen: list[tuple[float, PurgatoryMetrics]] = [(0.0, purgatory.metrics())]

    @property
    def elapsed_s(self) -> float:
        return monotonic() - self._began

    def step(self) -> bool:
        """Take a look and move the story on; False when it is over."""
        elapsed_s = self.elapsed_s
        self._seen.append((elapsed_s, self._purgatory.metrics()))
        stalls = STALLS[min(3, int(elapsed_s / self._seconds * 4))]
        if stalls != self._cluster.stalled:
            self._cluster.recover()
            self._cluster.stall(stalls)
        return elapsed_s < self._seconds

    def frame(self) -> RenderableType:
        return Group(
            Panel(
                _wheel(self._purgatory.timer.snapshot()),
                title=f"[bold]Sojourn[/]: a purgatory under load ({BUILD})",
                subtitle="▲ where the wheel stands      bars: how many wait (log scale)",
                subtitle_align="left",
                title_align="left",
                box=box.ROUNDED,
                border_style=_DIM,
                width=WIDTH,
            ),
            Panel(
                self._numbers(),
                title=f"{REQUESTS_PER_SECOND:,} produce requests a second on {PARTITIONS} "
                f"partitions, {min(self.elapsed_s, self._seconds):.1f} of {self._seconds:g} s",
                title_align="left",
                box=box.ROUNDED,
                border_style=_DIM,
                width=WIDTH,
            ),
        )

    def line(self) -> str:
        """The same, in one line of plain text."""
        metrics = self._seen[-1][1]
        return (
            f"{self.elapsed_s:5.1f} s  waiting {metrics.delayed:,}  watched {metrics.watched:,}  "
            f"completed {metrics.completed:,}  expired {metrics.expired:,}  "
            f"late p99 {_duration(metrics.lateness.percentile_ms(99))}"
            + ("  (a broker stalls)" if self._cluster.stalled is not None else "")
        )

    def _numbers(self) -> Text:
        metrics = self._seen[-1][1]
        completed = [(at_s, seen.completed) for at_s, seen in self._seen]
        expired = [(at_s, seen.expired) for at_s, seen in self._seen]
        waiting = [(at_s, seen.delayed) for at_s, seen in self._seen]
        text = Text(no_wrap=True)
        for name, count, aside, history, colour in (
            ("completed", metrics.completed, _rate(completed), self._growth(completed), "#2a9d8f"),
            ("expired", metrics.expired, _rate(expired), self._growth(expired), "#e76f51"),
            ("waiting", metrics.delayed, "", self._columns(waiting), "#e9c46a"),
        ):
            text.append(f"{name:<10}{count:>9,}")
            text.append(f"{aside:>12}   ", style=_DIM)
            text.append(_sparks(history) + "\n", style=colour)
        text.append(f"{'watched':<10}{metrics.watched:>9,}")
        text.append(f"{'':<15}places in the lists of {PARTITIONS} keys\n", style=_DIM)
        text.append(_percentiles("waited", metrics.waiting))
        text.append(_percentiles("late", metrics.lateness))
        text.append(self._brokers())
        return text

    def _brokers(self) -> Text:
        text = Text(f"{'brokers':<11}")
        for broker in range(BROKERS):
            stalled = broker == self._cluster.stalled
            text.append("● ", style="#e76f51" if stalled else "#2a9d8f")
        if self._cluster.stalled is not None:
            text.append(f" broker {self._cluster.stalled + 1} stalls: what waits for it may expire")
        else:
            text.append(" all followers fetch")
        return text

    def _growth(self, counts: Sequence[tuple[float, int]]) -> list[int]:
        """How much the count grew in each column of the history."""
        ends = self._columns(counts)
        return [end - start for start, end in zip([0, *ends], ends, strict=False)]

    def _columns(self, counts: Sequence[tuple[float, int]]) -> list[int]:
        """The count at the end of each column of the history that is over."""
        column_s = max(self._seconds / _SPARKS, 2 / FRAMES_PER_SECOND)
        last = {int(at_s / column_s): count for at_s, count in counts}
        columns: list[int] = []
        for column in range(min(max(last), _SPARKS)):
            columns.append(last.get(column, columns[-1] if columns else 0))
        return columns


def _wheel(wheel: WheelSnapshot) -> Text:
    text = Text(no_wrap=True)
    for level in wheel.levels:
        text.append(_level(level))
    text.rstrip()
    return text


def _level(level: LevelSnapshot) -> Text:
    """Three lines: the upper and lower half of the bars, and the mark below."""
    size = level.interval_ms // level.tick_ms
    here = level.current_ms // level.tick_ms % size
    waiting = {bucket.index: len(bucket.tasks) for bucket in level.buckets}
    upper, lower, mark = Text(f"{'':<8}"), Text(f"{_span(level.tick_ms):>6}  "), Text(f"{'':<8}")
    for index in range(size):
        # A bar has sixteen steps; 2**9 waiting fill it.
        height = min(16, math.ceil(math.log2(1 + waiting.get(index, 0)) * 16 / 9))
        shade = _SHADES[min(len(_SHADES) - 1, height * len(_SHADES) // 17)]
        upper.append(f"{_BARS[max(0, height - 8)] * (_CELL - 1)} ", style=shade)
        if height:
            lower.append(f"{_BARS[min(8, height)] * (_CELL - 1)} ", style=shade)
        else:
            lower.append("··".ljust(_CELL), style="grey35")
        mark.append(("▲▲" if index == here else "").ljust(_CELL), style="bold")
    lower.append(f"{sum(waiting.values()):>7,}")
    return Text("\n").join((upper, lower, mark, Text()))


def _span(ms: int) -> str:
    return f"{ms / 1000:g} s" if ms >= 1000 else f"{ms} ms"


def _duration(ms: float) -> str:
    if ms >= 1000:
        return f"{ms / 1000:.1f} s"
    return f"{ms:.0f} ms" if ms >= 10 else f"{ms:.2f} ms"


def _percentiles(name: str, histogram: HistogramSnapshot) -> Text:
    text = Text(f"{name:<10}")
    for label, ms in (
        ("half within", histogram.percentile_ms(50)),
        ("99 % within", histogram.percentile_ms(99)),
        ("at most", histogram.max_ms),
    ):
        text.append(f" {label} ", style=_DIM)
        text.append(f"{_duration(ms):<8}")
    return text.append("\n")


def _rate(counts: Sequence[tuple[float, int]]) -> str:
    """Growth over the last second, or as much of it as there is."""
    now_s, now = counts[-1]
    then_s, then = counts[max(0, len(counts) - 1 - FRAMES_PER_SECOND)]
    return f"{(now - then) / (now_s - then_s):,.0f}/s" if now_s > then_s else ""


def _sparks(values: Sequence[int]) -> str:
    most = max(values, default=0) or 1
    return "".join(_BARS[1 + round(7 * value / most)] for value in values)


def summary(cluster: Cluster, metrics: PurgatoryMetrics, dropped: int) -> str:
    late, waited = metrics.lateness, metrics.waiting
    return "\n".join(
        (
            f"Sojourn, {BUILD}.",
            f"submitted {cluster.submitted:,} = completed {metrics.completed:,} "
            f"+ expired {metrics.expired:,} + dropped at the end {dropped:,}",
            f"answered  {len(cluster.answers):,}, each request once; errors {metrics.errors}",
            f"waited    p50 {_duration(waited.percentile_ms(50))}, "
            f"p99 {_duration(waited.percentile_ms(99))}, max {_duration(waited.max_ms)}",
            f"late      p50 {_duration(late.percentile_ms(50))}, "
            f"p99 {_duration(late.percentile_ms(99))}, max {_duration(late.max_ms)}; never early",
            f"left      watched {metrics.watched}, delayed {metrics.delayed}",
        )
    )


def save_picture(frame: RenderableType, path: str) -> None:
    """Write one frame as an SVG file that needs nothing from the network."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    console.print(frame)
    svg = console.export_svg(title="make demo")
    with open(path, "w", encoding="utf-8") as file:
        file.write(re.sub(r"\s*@font-face \{.*?\}", "", svg, flags=re.DOTALL))


def run(seconds: float, picture: str | None, console: Console) -> None:
    pause = threading.Event()  # never set: waiting on it is a pause
    with Purgatory("produce") as purgatory, prompt_switching():
        cluster = Cluster(purgatory)
        watch = Watch(purgatory, cluster, seconds)
        cluster.start()
        if console.is_terminal:
            with Live(watch.frame(), console=console, auto_refresh=False) as live:
                while watch.step():
                    live.update(watch.frame(), refresh=True)
                    pause.wait(1 / FRAMES_PER_SECOND)
        else:
            print(f"Sojourn: a purgatory under load ({BUILD})", flush=True)
            told = 0
            while watch.step():
                if watch.elapsed_s * 6 / seconds > told + 1:  # five lines in all
                    told += 1
                    print(watch.line(), flush=True)
                pause.wait(1 / FRAMES_PER_SECOND)
        last = watch.frame()
        cluster.stop()
        dropped = purgatory.close()
    if picture is not None:
        save_picture(last, picture)
    console.print(summary(cluster, purgatory.metrics(), dropped), highlight=False)


def main() -> None:
    options = argparse.ArgumentParser(prog="python -m examples.watch", description=__doc__)
    options.formatter_class = argparse.RawDescriptionHelpFormatter
    options.add_argument("--seconds", type=float, default=12.0, help="how long (default 12)")
    options.add_argument("--picture", metavar="FILE", help="write the last frame as SVG")
    chosen = options.parse_args()
    if not chosen.seconds > 0:
        options.error(f"--seconds must be above 0, got {chosen.seconds:g}")
    run(chosen.seconds, chosen.picture, Console())


if __name__ == "__main__":
    main()
