"""The report's charts: numbers in, SVG out."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import TypeVar

from sojourn.report.advisor import Advice
from sojourn.report.numbers import Bar
from sojourn.report.stays import STATUSES
from sojourn.report.survival import Point
from sojourn.report.svg import (
    Scale,
    count_ticks,
    drawing,
    duration_ticks,
    label,
    line,
    moment_ticks,
    path,
    rect,
    tag,
)
from sojourn.report.timeline import Timeline
from sojourn.report.units import SECOND_MS, count, duration, moment, percent

WIDE, NARROW, CARD, TWO_CARDS = 1040, 350, 330, 690

_LEFT, _RIGHT = 58, 14
_GAP = 62  # pixels between ticks of time

T = TypeVar("T")

_LEAST_SHARE = 0.0005  # the advisor's charts end here
_TIMEOUTS_HEIGHT = 200
_LEAST_STEP = 1.04  # from one of their points to the next


def both_widths(draw: Callable[[T, int, str], str], numbers: T) -> str:
    """The same chart for desks and for phones; the style shows the one that fits."""
    return draw(numbers, WIDE, "wide") + draw(numbers, NARROW, "narrow")


def waits(bars: list[Bar], width: int, class_: str) -> str:
    """How long operations had waited, one strip for each way to end, on one scale of time."""
    strips = [n for n in range(len(STATUSES)) if any(bar.counts[n] for bar in bars)]
    strip, top = 124, 36
    height = strip * len(strips) + 30
    timed = [bar for bar in bars if bar.from_ms > 0] or [Bar(1, 2, [0] * len(STATUSES))]
    at_once = 44 if bars[0].from_ms == 0 else 0
    across = Scale(
        timed[0].from_ms, timed[-1].to_ms, _LEFT + at_once, width - _RIGHT, logarithmic=True
    )
    content, bottom = "", 0.0
    totals = [sum(bar.counts[n] for bar in bars) for n in range(len(STATUSES))]
    for row, status in enumerate(strips):
        name, bottom = STATUSES[status], float(strip * (row + 1))
        highest = max(bar.counts[status] for bar in bars)
        ticks = count_ticks(highest)
        up = Scale(0, ticks[-1], bottom, bottom - strip + top)
        for value in (ticks[0], ticks[-1]):
            content += line(_LEFT, up(value), width - _RIGHT, up(value), "grid")
            content += label(_LEFT - 8, up(value) + 4, count(value), anchor="end")
        text = f"{name}, {count(totals[status])}"
        content += label(_LEFT, bottom - strip + top - 10, text, anchor="start", class_="name")
        for bar in bars:
            number = bar.counts[status]
            if number:
                x, end = _bar_ends(bar, across)
                tall = max(bottom - up(number), 1.0)
                content += rect(x, bottom - tall, end - x, tall, f"fill {name}")
    if at_once:
        content += label(_LEFT + 15, bottom + 18, "at once")
    for x, text in duration_ticks(across, _GAP):
        if x > _LEFT + at_once + (36 if at_once else 0):
            content += line(x, bottom, x, bottom + 4, "axis")
            content += label(x, bottom + 18, text)
    read_outs = []
    for bar in bars:
        x, end = _bar_ends(bar, across)
        numbers = ", ".join(f"{count(bar.counts[n])} {STATUSES[n]}" for n in strips)
        between = f"{duration(bar.from_ms)} to {duration(bar.to_ms)}" if bar.from_ms else "at once"
        read_outs.append(((x + end) / 2, f"{between}: {numbers}"))
    says = "Waiting times: " + ", ".join(f"{count(totals[n])} {STATUSES[n]}" for n in strips)
    return drawing(width, height, content, says=says, read_outs=read_outs, class_=class_)


def waiting(timeline: Timeline, width: int, class_: str) -> str:
    """How many operations were waiting at each moment."""
    values = timeline.waiting
    height, bottom = 210, 180.0
    across, up, content = _count_axes(timeline, values, width, bottom)
    points = [(across(at), up(n)) for at, n in zip(timeline.steps, values, strict=True)]
    content += path(points, "area waiting", close_at=bottom) + path(points, "curve waiting")
    read_outs = [
        (across(at), f"{moment(at)}: {count(n)} waiting")
        for at, n in zip(timeline.steps, values, strict=True)
    ]
    says = f"Waiting operations over time, at most {count(max(values, default=0))}"
    return drawing(width, height, content, says=says, read_outs=read_outs, class_=class_)


def expiries(timeline: Timeline, width: int, class_: str) -> str:
    """How many operations expired in each step of time."""
    values = timeline.expired
    height, bottom = 170, 140.0
    across, up, content = _count_axes(timeline, values, width, bottom)
    step = abs(across(timeline.steps[0] + timeline.step_ms) - across(timeline.steps[0]))
    read_outs = []
    for at, number in zip(timeline.steps, values, strict=True):
        x = max(across(at) - step, float(_LEFT))
        if number:
            tall = max(bottom - up(number), 1.0)
            content += rect(x, bottom - tall, max(step - 0.6, 0.8), tall, "fill expired")
        until = f"{duration(timeline.step_ms)} to {moment(at)}"
        read_outs.append((x + step / 2, f"{until}: {count(number)} expired"))
    says = f"Expiries over time, at most {count(max(values, default=0))} in a step"
    return drawing(width, height, content, says=says, read_outs=read_outs, class_=class_)


def timeouts(advice: Advice, low_ms: int, high_ms: int, width: int = CARD, class_: str = "") -> str:
    """The share that would have expired before its event, with bounds; both axes logarithmic."""
    across, up, content = _timeout_axes(low_ms, high_ms, width)
    for share_of, look in (
        (_lost, "area expired"),
        (_lost_least, "bound expired"),
        (_lost_most, "bound expired"),
        (_lost, "curve expired"),
    ):
        content += _timeout_curve(advice, share_of, across, up, look)
    if low_ms < advice.horizon_ms < high_ms:
        x = across(advice.horizon_ms)
        content += rect(x, up(1), across(high_ms) - x, up(0) - up(1), "unknown")
    if advice.present:
        x = across(advice.present.timeout_ms)
        content += line(x, 4, x, up(0), "present")
    for need, part, kind in ((advice.for_99, 0.01, "hollow"), (advice.for_999, 0.001, "solid")):
        if need and need.ms is not None and low_ms <= need.ms <= high_ms:
            content += tag("circle", cx=across(need.ms), cy=up(part), r=5, class_=f"mark {kind}")
    read_outs = [
        (
            across(point.timeout_ms),
            f"timeout {duration(point.timeout_ms)}: {percent(point.lost)} expire before their "
            f"event ({percent(point.lost_least)} to {percent(point.lost_most)})",
        )
        for point in _thinned(advice.curve)
        if low_ms <= point.timeout_ms <= high_ms
    ]
    says = f"{advice.name}: share that would have expired before its event, by timeout"
    return drawing(width, _TIMEOUTS_HEIGHT, content, says=says, read_outs=read_outs, class_=class_)


def two_timeouts(
    before: Advice, after: Advice, low_ms: int, high_ms: int, names: tuple[str, str]
) -> str:
    """The same for two reports, one line each."""
    across, up, content = _timeout_axes(low_ms, high_ms, CARD)
    content += _timeout_curve(before, _lost, across, up, "curve before")
    content += _timeout_curve(after, _lost, across, up, "curve expired")
    read_outs = []
    points = {
        point.timeout_ms
        for one in (before, after)
        for point in _thinned(one.curve)
        if low_ms <= point.timeout_ms <= high_ms
    }
    for timeout_ms in sorted(points):
        text = [
            f"{_said_at(one, timeout_ms)} in {name}"
            for one, name in zip((before, after), names, strict=True)
        ]
        read_outs.append((across(timeout_ms), f"timeout {duration(timeout_ms)}: {', '.join(text)}"))
    says = f"{after.name}: share that would have expired before its event, in both"
    return drawing(CARD, _TIMEOUTS_HEIGHT, content, says=says, read_outs=read_outs)


def timeouts_span(advice: list[Advice]) -> tuple[int, int]:
    """The timeouts worth drawing for these, from where something begins to where all is over."""
    lows, highs = [], []
    for one in advice:
        early = [point.timeout_ms for point in one.curve if point.lost > 0.95]
        lows.append(max(early[-1] if early else one.curve[0].timeout_ms, 1))
        if one.for_999:
            highs.append(2 * (one.for_999.ms or one.for_999.at_least_ms))
        if one.present:
            highs.append(int(1.5 * one.present.timeout_ms))
    low_ms = min(lows)
    return low_ms, max(*highs, 10 * low_ms, SECOND_MS)


def _timeout_axes(low_ms: int, high_ms: int, width: int) -> tuple[Scale, Scale, str]:
    bottom, left, right = _TIMEOUTS_HEIGHT - 32.0, 44, width - 10
    across = Scale(low_ms, high_ms, left, right, logarithmic=True)
    up = Scale(_LEAST_SHARE, 1, bottom, 12, logarithmic=True)
    content = ""
    for value, text in ((1, "100 %"), (0.1, "10 %"), (0.01, "1 %"), (0.001, "0.1 %")):
        content += line(left, up(value), right, up(value), "grid")
        content += label(left - 6, up(value) + 4, text, anchor="end")
    content += line(left, bottom, right, bottom, "axis")
    for x, text in duration_ticks(across, 42):
        content += line(x, bottom, x, bottom + 4, "axis") + label(x, bottom + 17, text)
    return across, up, content


def _timeout_curve(
    advice: Advice, share_of: Callable[[Point], float], across: Scale, up: Scale, look: str
) -> str:
    """From the left edge, where nearly all expire, to the horizon or to the bottom."""
    start = [point for point in advice.curve if point.timeout_ms <= across.low]
    points = [(across(across.low), up(share_of(start[-1]) if start else 1.0))]
    for point in _thinned(advice.curve):
        if not across.low < point.timeout_ms <= across.high:
            continue
        points.append((across(point.timeout_ms), up(share_of(point))))
        if share_of(point) <= _LEAST_SHARE:
            break
    return path(points, look, close_at=up(0) if look.startswith("area") else None)


_lost: Callable[[Point], float] = attrgetter("lost")
_lost_least: Callable[[Point], float] = attrgetter("lost_least")
_lost_most: Callable[[Point], float] = attrgetter("lost_most")


def _said_at(advice: Advice, timeout_ms: int) -> str:
    if timeout_ms > advice.horizon_ms:
        return "not known"
    below = [point for point in advice.curve if point.timeout_ms <= timeout_ms]
    return percent(below[-1].lost if below else 1.0)


def _thinned(curve: list[Point]) -> list[Point]:
    """Some of the points, as close together as a drawing shows; with the last."""
    kept = curve[:1]
    for point in curve[1:-1]:
        if point.timeout_ms >= _LEAST_STEP * kept[-1].timeout_ms:
            kept.append(point)
    return [*kept, *curve[1:][-1:]]


def _bar_ends(bar: Bar, across: Scale) -> tuple[float, float]:
    if bar.from_ms == 0:
        return float(_LEFT) + 3, float(_LEFT) + 27
    x, end = across(bar.from_ms), across(bar.to_ms)
    return x, max(end - (1.0 if end - x > 4 else 0.4), x + 0.8)


def _count_axes(
    timeline: Timeline, values: list[int], width: int, bottom: float
) -> tuple[Scale, Scale, str]:
    """Time across and counts up, with their ticks."""
    across = Scale(timeline.steps[0], timeline.steps[-1], _LEFT, width - _RIGHT)
    ticks = count_ticks(max(values, default=0))
    up = Scale(0, ticks[-1], bottom, 12)
    drawn = ""
    for value in ticks:
        drawn += line(_LEFT, up(value), width - _RIGHT, up(value), "grid" if value else "axis")
        drawn += label(_LEFT - 8, up(value) + 4, count(value), anchor="end")
    for x, text in moment_ticks(across, _GAP):
        drawn += line(x, bottom, x, bottom + 4, "axis") + label(x, bottom + 18, text)
    return across, up, drawn
