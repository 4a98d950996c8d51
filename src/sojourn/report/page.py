"""The page: words around the charts."""

from __future__ import annotations

from html import escape

from sojourn.report import charts
from sojourn.report.advice_section import advice_section
from sojourn.report.html import document, duration, exactly, operations, share, table
from sojourn.report.numbers import Numbers, Summary
from sojourn.report.units import count, moment


def page(numbers: Numbers, title: str = "What waited, and for how long") -> str:
    """The whole report as one HTML document."""
    sections = [_totals(numbers)]
    if numbers.summary.ended:
        sections += [advice_section(numbers), _waits(numbers), _over_time(numbers), _keys(numbers)]
    sections.append(_rejected(numbers.summary))
    return document(title, sections)


def _totals(numbers: Numbers) -> str:
    summary = numbers.summary
    parts = [(waits.status, waits.count) for waits in summary.waits]
    if summary.pending:
        parts.append(("pending", summary.pending))
    if summary.rejected_operations:
        parts.append(("rejected", summary.rejected_operations))
    whole = summary.operations
    bar = "".join(
        f'<span class="{name}" style="flex:{number}"></span>' for name, number in parts if number
    )
    tiles = []
    for waits in summary.waits:
        more = "none"
        if waits.median_ms is not None and waits.p99_ms is not None:
            more = f"p50 {duration(waits.median_ms)}, p99 {duration(waits.p99_ms)}"
        tiles.append(_tile(waits.status, waits.count, share(waits.count, whole), more))
    if summary.pending:
        part = share(summary.pending, whole)
        tiles.append(_tile("pending", summary.pending, part, "had not ended when the rows did"))
    if summary.rejected_rows:
        part = share(summary.rejected_operations, whole)
        more = f"{count(summary.rejected_operations)} of them operations"
        tiles.append(_tile("rejected", summary.rejected_rows, "rows", more))
    span = "No operation has ended."
    if numbers.first_ms is not None and numbers.last_ms is not None:
        span = f"From {moment(numbers.first_ms)} to {moment(numbers.last_ms)} UTC."
    origin = f" Read from {escape(numbers.origin)}." if numbers.origin else ""
    return (
        '<header><p class="eyebrow">Sojourn report</p>'
        f"<h1>{_headline(summary)}</h1><p>{span}{origin}</p></header>\n"
        f'<div class="proportions" role="img" aria-label="{_describe(parts, whole)}">{bar}</div>\n'
        f'<div class="tiles">{"".join(tiles)}</div>'
    )


def _headline(summary: Summary) -> str:
    if not summary.ended:
        return f"{operations(summary.operations)}, none ended yet"
    completed, expired = summary.count("completed"), summary.count("expired")
    whole = summary.operations
    return (
        f"{operations(whole)}: {share(completed, whole)} completed, "
        f"{share(expired, whole)} ran out of time"
    )


def _tile(name: str, number: int, part: str, more: str) -> str:
    return (
        f'<div class="tile"><div class="what"><span class="swatch {name}"></span>{name}</div>'
        f'<div class="many">{count(number)}<small>{part}</small></div>'
        f'<div class="more">{more}</div></div>'
    )


def _describe(parts: list[tuple[str, int]], whole: int) -> str:
    return ", ".join(f"{share(number, whole)} {name}" for name, number in parts if number)


def _waits(numbers: Numbers) -> str:
    rows = [
        [
            f'<th><span class="swatch {waits.status}"></span>{waits.status}</th>',
            count(waits.count),
            *(
                "–" if ms is None else exactly(ms)
                for ms in (waits.median_ms, waits.p99_ms, waits.longest_ms)
            ),
        ]
        for waits in numbers.summary.waits
    ]
    heads = ["", "operations", "p50", "p99", "longest"]
    return (
        '<section><h2>How long they waited</h2><p class="lead">From submission to the end, however '
        "they ended. The scale of time is logarithmic; each strip has its own height.</p>"
        f'<div class="card"><figure>{charts.both_widths(charts.waits, numbers.bars)}'
        '<p class="read"></p></figure></div>'
        f"<details><summary>The same as a table</summary>"
        f'<div class="card scroll">{table(heads, rows)}</div></details></section>'
    )


def _over_time(numbers: Numbers) -> str:
    timeline = numbers.timeline
    if timeline is None:
        return ""
    outside = ""
    if timeline.outside:
        outside = (
            f" {count(timeline.outside)} operations ended after the part of time that is shown."
        )
    pending = " Pending operations are among those waiting." if numbers.summary.pending else ""
    step = duration(timeline.step_ms)
    expired = numbers.summary.count("expired")
    drawn = (
        f"<figure><figcaption>Expired <span>in each {step}</span></figcaption>"
        f"{charts.both_widths(charts.expiries, timeline)}"
        '<p class="read"></p></figure>'
        if expired
        else ""
    )
    most = max(timeline.waiting, default=0)
    at_ms = timeline.steps[timeline.waiting.index(most)] if timeline.waiting else 0
    peak = f" At most {count(most)} waited, on {moment(at_ms)}." if most else ""
    return (
        f'<section><h2>When</h2><p class="lead">{peak}{pending}{outside}</p>'
        f'<div class="card"><figure><figcaption>Waiting <span>every {step}</span></figcaption>'
        f"{charts.both_widths(charts.waiting, timeline)}"
        f'<p class="read"></p></figure>{drawn}</div></section>'
    )


def _keys(numbers: Numbers) -> str:
    title = "<h2>The keys waited for longest</h2>"
    if not numbers.keys:
        return (
            f'<section>{title}<p class="lead">No operation waited for a key and completed.</p>'
            "</section>"
        )
    longest = numbers.keys[0].total_ms
    rows = [
        [
            f"<th><bdi>{escape(waits.key)}</bdi></th>",
            f'<div style="width:{100 * waits.total_ms / longest:.1f}%"></div>',
            exactly(waits.total_ms),
            count(waits.count),
            exactly(waits.median_ms),
            exactly(waits.p99_ms),
        ]
        for waits in numbers.keys
    ]
    heads = ["key", "", "total wait", "operations", "p50", "p99"]
    return (
        f'<section>{title}<p class="lead">Of completed operations: the key that came last of those '
        "needed, and so ended the wait. Longest total first.</p>"
        f'<div class="card scroll">{table(heads, rows, meter=1)}</div></section>'
    )


def _rejected(summary: Summary) -> str:
    title = "<h2>Rejected rows</h2>"
    if summary.rejected is None:
        return ""
    if not summary.rejected:
        return f'<section>{title}<p class="lead">None.</p></section>'
    kinds = sorted(summary.rejected.items(), key=lambda one: (-one[1], one[0]))
    rows = [
        [
            f'<td class="wrap">{escape(reason)}</td>',
            f'<td class="left">{escape(table)}</td>',
            count(number),
        ]
        for (table, reason), number in kinds
    ]
    heads = ["reason", '<th class="left">table</th>', "rows"]
    return (
        f'<section>{title}<p class="lead">{count(summary.rejected_rows)} rows were '
        "rejected, each with its reason; the others were resolved without them.</p>"
        f'<div class="card scroll">{table(heads, rows)}</div></section>'
    )
