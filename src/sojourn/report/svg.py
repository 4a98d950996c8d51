"""The little SVG that the report needs: scales, ticks and elements; colours are the page's."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from sojourn.report.units import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, YEAR_MS, duration, moment

DURATIONS_MS = (
    *(1, 10, 100, SECOND_MS, 10 * SECOND_MS, MINUTE_MS, 10 * MINUTE_MS, HOUR_MS, 6 * HOUR_MS),
    *(DAY_MS, 7 * DAY_MS, 30 * DAY_MS, *(YEAR_MS * 10**n for n in range(10))),
)
_TIMES_MS = (
    *(n for power in (1, 10, 100) for n in (power, 2 * power, 5 * power)),
    *(SECOND_MS * n for n in (1, 2, 5, 10, 15, 30)),
    *(MINUTE_MS * n for n in (1, 2, 5, 10, 15, 30)),
    *(HOUR_MS * n for n in (1, 2, 3, 6, 12)),
    *(DAY_MS * n for n in (1, 2, 7, 14, 28, 91, 182)),
    *(YEAR_MS * 10**n for n in range(10)),
)


@dataclass(frozen=True)
class Scale:
    """From values to pixels, straight or logarithmic; what lies outside goes to the nearer end."""

    low: float
    high: float
    start: float
    end: float
    logarithmic: bool = False

    def __call__(self, value: float) -> float:
        value = min(max(value, self.low), self.high)
        if self.high == self.low:
            return self.start
        if self.logarithmic:
            part = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            part = (value - self.low) / (self.high - self.low)
        return self.start + part * (self.end - self.start)


def tag(name: str, content: str = "", **attributes: object) -> str:
    """An element; `class_` is class, and other underscores become dashes."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_short(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return f"<{name}{written}>{content}</{name}>"


def label(x: float, y: float, text: str, *, anchor: str = "middle", class_: str = "tick") -> str:
    return tag("text", escape(text), x=x, y=y, text_anchor=anchor, class_=class_)


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> str:
    return tag("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def rect(x: float, y: float, width: float, height: float, class_: str) -> str:
    return tag("rect", x=x, y=y, width=width, height=height, class_=class_)


def path(
    points: Iterable[tuple[float, float]], class_: str, *, close_at: float | None = None
) -> str:
    """A line through the points; with `close_at` the area between it and that height."""
    corners = list(points)
    drawn = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in corners)
    if close_at is not None:
        drawn += f"L{corners[-1][0]:.1f} {close_at:.1f}L{corners[0][0]:.1f} {close_at:.1f}Z"
    return tag("path", d=drawn, class_=class_)


def drawing(
    width: int,
    height: int,
    content: str,
    *,
    says: str,
    read_outs: Sequence[tuple[float, str]] = (),
    class_: str = "",
) -> str:
    """The whole drawing. `says` tells what is to be seen; `read_outs` what to say at which x."""
    return tag(
        "svg",
        content,
        viewBox=f"0 0 {width} {height}",
        role="img",
        aria_label=says,
        class_=class_ or None,
        tabindex="0" if read_outs else None,
        data_read=json.dumps([[round(x, 1), text] for x, text in read_outs], ensure_ascii=False)
        if read_outs
        else None,
    )


def count_ticks(highest: int) -> list[int]:
    """0 and up to four round numbers, the last of them not below `highest`."""
    if highest <= 0:
        return [0, 1]
    power = 10 ** (len(str(highest)) - 1)
    for step in (power // 10 * 2, power // 4, power // 2, power, 2 * power, 5 * power):
        if step and step * 4 >= highest:
            return [step * n for n in range(-(-highest // step) + 1)]
    return [0, 10 * power]


def duration_ticks(scale: Scale, gap: float) -> list[tuple[float, str]]:
    """Round durations on a logarithmic scale, at least `gap` pixels apart."""
    return _spread(
        [(scale(ms), duration(ms)) for ms in DURATIONS_MS if scale.low <= ms <= scale.high], gap
    )


def moment_ticks(scale: Scale, gap: float) -> list[tuple[float, str]]:
    """Round moments, at least `gap` pixels apart: midnights by their date, others by the clock."""
    span_ms = scale.high - scale.low
    room = max(1.0, abs(scale.end - scale.start) / gap)
    step_ms = next((step for step in _TIMES_MS if step * room >= span_ms), _TIMES_MS[-1])
    first = -(-int(scale.low) // step_ms)
    last = int(scale.high) // step_ms
    ticks = []
    for at_ms in (n * step_ms for n in range(first, last + 1)):
        text = moment(at_ms)
        day, _, clock = text.partition(", ")
        year = day.rpartition(" ")
        short = year[2] if step_ms >= YEAR_MS else year[0]
        ticks.append((scale(at_ms), clock if at_ms % DAY_MS and clock else short or text))
    return ticks


def _spread(ticks: list[tuple[float, str]], gap: float) -> list[tuple[float, str]]:
    kept: list[tuple[float, str]] = []
    for x, text in ticks:
        if not kept or abs(x - kept[-1][0]) >= gap:
            kept.append((x, text))
    return kept


def _short(value: object) -> str:
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)
