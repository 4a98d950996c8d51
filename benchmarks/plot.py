"""One picture of a run: a few small panels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.contenders import LABELS

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes

    from benchmarks.results import Results

_OURS = "#0b7285"
_THEIRS = "#adb5bd"
_KAFKA = "#e8590c"


def plot(results: Results, path: Path) -> None:
    """Draw the panels that this run has figures for; SVG or PNG by the path's ending."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    panels = [
        panel
        for workload, panel in (
            ("request-timeouts", _totals),
            ("growth", _growth),
            ("purgatory", _purgatory),
            ("one-key", _one_key),
            ("async-waits", _async_waits),
            ("lateness", _lateness),
            ("rows", _rows),
            ("stream", _stream),
        )
        if any(outcome.rows for outcome in results.of(workload))
    ]
    if not panels:
        return
    pyplot.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False})
    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    inches = (5.6 * columns, 3.8 * rows)
    figure, grid = pyplot.subplots(rows, columns, figsize=inches, squeeze=False)
    axes = list(grid.flat)
    for panel, axis in zip(panels, axes, strict=False):
        panel(results, axis)
    for spare in axes[len(panels) :]:
        spare.set_visible(False)
    figure.tight_layout()
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def colour(contender: str) -> str:
    if contender.startswith("kafka"):
        return _KAFKA
    return _OURS if LABELS[contender].startswith("sojourn") else _THEIRS


def _totals(results: Results, axis: Axes) -> None:
    measured = [
        (LABELS[outcome.case.contender], total, colour(outcome.case.contender))
        for outcome in results.of("request-timeouts")
        if (total := outcome.median("total_ms")) is not None
        and outcome.case.contender != "apscheduler"
    ]
    measured.sort(key=lambda bar: bar[1])
    labels, totals, colours = zip(*measured, strict=True)
    bars = axis.barh(labels, totals, color=colours)
    axis.bar_label(bars, fmt="{:,.0f}", padding=3)
    axis.invert_yaxis()
    axis.set_xscale("log")
    axis.set_xlim(1, max(totals) * 3)
    scenario = results.of("request-timeouts")[0].case.scenario
    axis.set_title(f"{scenario} request timeouts, whole run (ms)", loc="left")


def _growth(results: Results, axis: Axes) -> None:
    lines: dict[str, list[tuple[int, float]]] = {}
    for outcome in results.of("growth"):
        if (add_ns := outcome.median("add_ns")) is not None:
            pending = _number(outcome.case.scenario)
            lines.setdefault(outcome.case.contender, []).append((pending, add_ns))
    styles = {"asyncio": ":", "uvloop": "--", "deadline-wheel": "--"}
    for contender, points in lines.items():
        x, y = zip(*points, strict=True)
        axis.plot(
            x, y, styles.get(contender, "-"), marker="o", markersize=3,
            color=colour(contender), label=LABELS[contender],
        )  # fmt: skip
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.yaxis.set_major_formatter("{x:,.0f}")
    axis.set_ylim(bottom=3)
    axis.legend(frameon=False, fontsize=7, ncols=2, loc="lower right")
    axis.set_xlabel("timers already pending")
    axis.set_title("ns per add", loc="left")


def _one_key(results: Results, axis: Axes) -> None:
    lines: dict[str, list[tuple[int, float]]] = {}
    for outcome in results.of("one-key"):
        size, _, shape = outcome.case.scenario.partition(" ")
        signal_us = outcome.median("signal_us")
        if shape == "not ready" and signal_us is not None:
            lines.setdefault(outcome.case.contender, []).append((_number(size), signal_us))
    for contender, points in lines.items():
        x, y = zip(*points, strict=True)
        style = "--" if contender == "purgatory" else "-"
        label = LABELS[contender]
        axis.plot(x, y, style, marker="o", markersize=3, color=colour(contender), label=label)
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.yaxis.set_major_formatter("{x:,g}")
    axis.legend(frameon=False, fontsize=7)
    axis.set_xlabel("operations waiting on the key, none of them ready")
    axis.set_title("µs per signal", loc="left")


def _async_waits(results: Results, axis: Axes) -> None:
    bars = [
        (LABELS[o.case.contender], each_us, colour(o.case.contender))
        for o in results.of("async-waits")
        if (each_us := o.median("each_us")) is not None
    ]
    bars.sort(key=lambda bar: bar[1])
    labels, each, colours = zip(*bars, strict=True)
    drawn = axis.barh(labels, each, color=colours)
    axis.bar_label(drawn, fmt="{:,.1f}", padding=3)
    axis.invert_yaxis()
    axis.set_xlim(0, max(each) * 1.2)
    axis.tick_params(axis="y", labelsize=7)
    axis.set_title(f"{results.of('async-waits')[0].case.scenario} on asyncio (µs each)", loc="left")


def _number(text: str) -> int:
    """What `plan.count` has spelled."""
    return int(text.replace("M", "000k").replace("k", "000"))


def _purgatory(results: Results, axis: Axes) -> None:
    outcomes = [o for o in results.of("purgatory") if o.median("ops_per_s") is not None]
    scenarios = list(dict.fromkeys(outcome.case.scenario for outcome in outcomes))
    contenders = list(dict.fromkeys(outcome.case.contender for outcome in outcomes))
    width = 0.8 / max(1, len(contenders))
    for i, contender in enumerate(contenders):
        heights = [
            (results.number("purgatory", scenario, contender, "ops_per_s") or 0) / 1e3
            for scenario in scenarios
        ]
        axis.bar(
            [position + i * width for position in range(len(scenarios))], heights, width * 0.95,
            label=LABELS[contender], color=colour(contender),
            alpha=0.55 if contender in ("progress", "progress-plain", "kafka-presized") else 1,
        )  # fmt: skip
    names = [scenario.replace(" ", "\n") for scenario in scenarios]
    middle = width * (len(contenders) - 1) / 2
    axis.set_xticks([position + middle for position in range(len(scenarios))], names)
    axis.legend(frameon=False, fontsize=7)
    axis.set_title("purgatory: thousand operations/s", loc="left")


def _rows(results: Results, axis: Axes) -> None:
    measured = [
        (o.case.scenario, o.case.contender, seconds)
        for o in results.of("rows")
        if (seconds := o.median("seconds")) is not None
    ]
    contenders = list(dict.fromkeys(contender for _, contender, _ in measured))
    whole = [  # the sizes that all have been measured at
        scenario
        for scenario in dict.fromkeys(scenario for scenario, _, _ in measured)
        if sum(scenario == other for other, _, _ in measured) == len(contenders)
    ]
    width = 0.8 / len(contenders)
    for i, contender in enumerate(contenders):
        heights = [
            results.number("rows", scenario, contender, "seconds") or 0 for scenario in whole
        ]
        places = [place + i * width for place in range(len(whole))]
        label = LABELS[contender]
        shade = 0.55 if contender in ("spark", "polars") else 1
        tint = _KAFKA if contender == "window-sql" else colour(contender)
        bars = axis.bar(places, heights, width * 0.95, label=label, color=tint, alpha=shade)
        axis.bar_label(bars, fmt="{:,.1f}", padding=2, fontsize=7)
    middle = width * (len(contenders) - 1) / 2
    names = [scenario.replace(", ", "\n") for scenario in whole]
    axis.set_xticks([place + middle for place in range(len(whole))], names)
    axis.legend(frameon=False, fontsize=7, loc="upper left")
    axis.set_title("operations as data, from files to outcomes (s)", loc="left")


def _stream(results: Results, axis: Axes) -> None:
    bars = [
        (LABELS[o.case.contender], rate / 1e3, colour(o.case.contender))
        for o in results.of("stream")
        if (rate := o.median("rows_per_s")) is not None
    ]
    labels, rates, colours = zip(*bars, strict=True)
    drawn = axis.barh(labels, rates, color=colours)
    axis.bar_label(drawn, fmt="{:,.1f}", padding=3)
    axis.invert_yaxis()
    axis.set_xlim(0, max(rates) * 1.2)
    axis.set_title("a stream on Spark: thousand rows/s", loc="left")


def _lateness(results: Results, axis: Axes) -> None:
    outcomes = [o for o in results.of("lateness") if o.median("p99_ms") is not None]
    labels = [f"{LABELS[o.case.contender]}, {o.case.scenario}" for o in outcomes]
    for outcome, label in zip(outcomes, labels, strict=True):
        p50, p99 = outcome.median("p50_ms") or 0.0, outcome.median("p99_ms") or 0.0
        tint = colour(outcome.case.contender)
        axis.plot([max(p50, 0.01), max(p99, 0.01)], [label, label], color=tint, linewidth=2)
        axis.plot([max(p99, 0.01)], [label], marker="|", markersize=9, color=tint)
    axis.set_xscale("log")
    axis.tick_params(axis="y", labelsize=6)
    axis.invert_yaxis()
    axis.set_title("lateness, p50 to p99 (ms; at least 0.01)", loc="left")
