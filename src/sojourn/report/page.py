"""The page: words around the charts. It stands alone, without network and without other files."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from sojourn.report import charts, units
from sojourn.report.advisor import Advice, Verdict
from sojourn.report.numbers import Numbers, Summary
from sojourn.report.style import CSS, SCRIPT
from sojourn.report.units import count, moment

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"

_VERDICTS = {
    Verdict.TIGHT: "▲ too tight",
    Verdict.FITS: "● fits",
    Verdict.LONG: "▼ longer than needed",
    Verdict.MIXED: "◆ not one but several",
    Verdict.UNKNOWN: "○ not known",
}


def page(numbers: Numbers, title: str = "What waited, and for how long") -> str:
    """The whole report as one HTML document."""
    sections = [_totals(numbers)]
    if numbers.summary.ended:
        sections += [_advisor(numbers), _waits(numbers), _over_time(numbers), _keys(numbers)]
    sections.append(_rejected(numbers.summary))
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<link rel="icon" href="data:,">\n'
        f"<title>{escape(title)}</title>\n<style>{CSS}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(section for section in sections if section)
        + "\n<footer>Made by Sojourn. Times of day are UTC. All numbers are counted, none is "
        "estimated; durations are rounded where they are written with two units.</footer>\n"
        f"</main>\n<script>{SCRIPT}</script>\n</body>\n</html>\n"
    )


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
            more = (
                f"half within {duration(waits.median_ms)}, "
                f"99 in 100 within {duration(waits.p99_ms)}"
            )
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
        f'<div class="proportions" role="img" aria-label="{_said(parts, whole)}">{bar}</div>\n'
        f'<div class="tiles">{"".join(tiles)}</div>'
    )


def _headline(summary: Summary) -> str:
    if not summary.ended:
        return f"{_operations(summary.operations)}, none ended yet"
    completed, expired = summary.count("completed"), summary.count("expired")
    whole = summary.operations
    return (
        f"{_operations(whole)}: {share(completed, whole)} completed, "
        f"{share(expired, whole)} ran out of time"
    )


def _tile(name: str, number: int, part: str, more: str) -> str:
    return (
        f'<div class="tile"><div class="what"><span class="swatch {name}"></span>{name}</div>'
        f'<div class="many">{count(number)}<small>{part}</small></div>'
        f'<div class="more">{more}</div></div>'
    )


def _said(parts: list[tuple[str, int]], whole: int) -> str:
    return ", ".join(f"{share(number, whole)} {name}" for name, number in parts if number)


def _advisor(numbers: Numbers) -> str:
    title = "<h2>What the timeout should have been</h2>"
    if numbers.advice is None:
        return (
            f'<section>{title}<p class="lead">These outcomes come from a stream, which does not '
            "wait to see when the conditions of expired operations hold after all. Replay the same "
            "rows (<code>sojourn replay</code>); the report of that has the answer.</p></section>"
        )
    advice = [one for one in numbers.advice if one.counted]
    if not advice:
        return (
            f'<section>{title}<p class="lead">No condition ever held, so no timeout would have '
            "changed anything.</p></section>"
        )
    several = len(numbers.advice) > 1
    low_ms, high_ms = charts.timeouts_span(advice)
    cards = "".join(
        _card(one, low_ms, high_ms, whole=several and one is numbers.advice[0]) for one in advice
    )
    per = f", by {escape(str(numbers.class_column))}" if several else ""
    return (
        f'<section>{title}<p class="lead">The share of operations that would have expired, for '
        f"every timeout{per}. Counted are operations whose condition held at some time, in time or "
        "too late.</p>"
        f"{_advice_table(numbers.advice)}"
        f'<div class="cards">{cards}</div>'
        f"{_ladder(advice)}{_what_is_counted(numbers.advice[0])}</section>"
    )


def _advice_table(advice: list[Advice]) -> str:
    rows = []
    for one in advice:
        present = one.present
        rows.append(
            [
                f"<th>{escape(one.name)}</th>",
                _present(one),
                _exactly(one.for_99.value if one.for_99 else None),
                _exactly(one.for_999.value if one.for_999 else None),
                share(present.would_expire, one.counted) if present else "–",
                count(one.never),
                count(one.operations),
                f'<span class="verdict {one.verdict.value}">{_VERDICTS[one.verdict]}</span>',
            ]
        )
    heads = [
        "",
        "present timeout",
        "99 % need",
        "99.9 % need",
        "expire at present that could complete",
        "never could complete",
        "operations",
        "present timeout is",
    ]
    return f'<div class="card scroll">{_table(heads, rows)}</div>'


def _present(advice: Advice) -> str:
    if advice.present is None:
        return "not known"
    said = _exactly(advice.present.timeout_ms)
    return said if advice.present.only_one else f"{said}, mostly"


def _exactly(ms: int | None) -> str:
    if ms is None:
        return "–"
    said = duration(ms)
    return said if said.endswith("ms") else f'<span title="{count(ms)} ms">{said}</span>'


def _card(advice: Advice, low_ms: int, high_ms: int, *, whole: bool) -> str:
    entries = []
    if advice.present:
        entries.append((_PRESENT, "present timeout", advice.present.timeout_ms))
    if advice.for_99:
        entries.append((_HOLLOW, "99 % complete with", advice.for_99.value))
    if advice.for_999:
        entries.append((_SOLID, "99.9 % complete with", advice.for_999.value))
    legend = "".join(
        f"<dt>{glyph}<span>{what}</span></dt><dd>{_exactly(ms)}</dd>" for glyph, what, ms in entries
    )
    chart = charts.timeouts(advice, low_ms, high_ms)
    if whole:
        chart = charts.timeouts(advice, low_ms, high_ms, charts.TWO_CARDS, "wide")
        chart += charts.timeouts(advice, low_ms, high_ms, class_="narrow")
    return (
        f'<div class="card{" whole" if whole else ""}">'
        f'<div class="head"><h3>{escape(advice.name)}</h3>'
        f'<span class="verdict {advice.verdict.value}">{_VERDICTS[advice.verdict]}</span></div>'
        f'<p class="said">{_advice_in_words(advice)}</p>'
        f"<figure>{chart}"
        '<p class="read"></p></figure>'
        f'<dl class="legend">{legend}</dl></div>'
    )


def _advice_in_words(advice: Advice) -> str:
    present, for_99, for_999 = advice.present, advice.for_99, advice.for_999
    assert for_99 is not None
    assert for_999 is not None
    if present is None:
        said = (
            "Nothing expired, so outcomes do not show the timeout. "
            f"{duration(for_999.value)} is enough for 999 in 1,000."
        )
    else:
        lost = share(present.would_expire, advice.counted)
        if advice.verdict is Verdict.TIGHT:
            said = (
                f"With {duration(present.timeout_ms)}, {lost} expire that would have completed. "
                f"{duration(for_99.value)} would lose 1 in 100, "
                f"{duration(for_999.value)} 1 in 1,000."
            )
        elif advice.verdict is Verdict.LONG:
            said = (
                f"999 in 1,000 complete within {duration(for_999.value)}; waiting on until "
                f"{duration(present.timeout_ms)} gains {_gained(advice)}"
            )
            said += f" and keeps {count(advice.never)} waiting in vain." if advice.never else "."
        elif advice.verdict is Verdict.MIXED:
            several = count(present.timeouts) if present.exact else "very many"
            said = (
                f"Expired operations had {several} different timeouts; the commonest, "
                f"{duration(present.timeout_ms)}, is marked. One timeout for all would have to be "
                f"{duration(for_99.value)} to lose 1 in 100."
            )
        else:
            said = f"With {duration(present.timeout_ms)}, {lost} expire that would have completed."
    return said


def _gained(advice: Advice) -> str:
    assert advice.present is not None
    assert advice.for_999 is not None
    more = advice.counted - advice.present.would_expire - advice.for_999.up_to
    return f"{count(more)} more" if more > 0 else "nobody more"


def _ladder(advice: list[Advice]) -> str:
    """The curve as a table, for timeouts that people choose."""
    shown = [
        number
        for number, (_, _) in enumerate(advice[0].ladder)
        if any(0 < one.ladder[number][1] < one.counted for one in advice)
    ]
    if not shown:
        return ""
    rows = [
        [
            f"<th>{duration(advice[0].ladder[number][0])}</th>",
            *(share(one.ladder[number][1], one.counted) for one in advice),
        ]
        for number in shown
    ]
    heads = ["timeout", *(escape(one.name) for one in advice)]
    return (
        "<details><summary>The same as a table</summary>"
        f'<div class="card scroll">{_table(heads, rows)}</div></details>'
    )


def _what_is_counted(whole: Advice) -> str:
    return (
        '<details><summary>What exactly is counted</summary><ul class="notes">'
        f"<li>Counted: the {count(whole.counted)} operations whose condition held at some time, "
        "with the wait from submission to that time; also if they had expired before it "
        f"({count(whole.too_late)} of them) or been cancelled before it.</li>"
        "<li>With a timeout of t, those whose wait is longer than t would have expired; a wait of "
        "exactly t completes. “99 % need” is the smallest timeout in whole milliseconds with which "
        "at least 99 % of those counted complete. It is found by counting.</li>"
        f"<li>Never could complete: {count(whole.never)} operations that expired and whose "
        "condition does not hold anywhere in the rows. They expire whatever the timeout, and are "
        "not in the shares.</li>"
        f"<li>Left out: {count(whole.left_out)} operations that were cancelled and whose condition "
        "does not hold anywhere in the rows; nobody knows what would have become of them.</li>"
        "<li>The present timeout is what expired operations had waited. If they differ, the "
        "commonest is shown.</li>"
        "<li>Too tight: more than 1 in 100 of those counted expire with the present timeout. "
        "Longer than needed: at least twice what 99.9 % need.</li></ul></details>"
    )


def _waits(numbers: Numbers) -> str:
    rows = [
        [
            f'<th><span class="swatch {waits.status}"></span>{waits.status}</th>',
            count(waits.count),
            *(
                "–" if ms is None else _exactly(ms)
                for ms in (waits.median_ms, waits.p99_ms, waits.longest_ms)
            ),
        ]
        for waits in numbers.summary.waits
    ]
    heads = ["", "operations", "half within", "99 in 100 within", "longest"]
    return (
        '<section><h2>How long they waited</h2><p class="lead">From submission to the end, however '
        "they ended. The scale of time is logarithmic; each strip has its own height.</p>"
        f'<div class="card"><figure>{charts.both_widths(charts.waits, numbers.bars)}'
        '<p class="read"></p></figure></div>'
        f"<details><summary>The same as a table</summary>"
        f'<div class="card scroll">{_table(heads, rows)}</div></details></section>'
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
            _exactly(waits.total_ms),
            count(waits.count),
            _exactly(waits.median_ms),
            _exactly(waits.p99_ms),
        ]
        for waits in numbers.keys
    ]
    heads = ["key", "", "waited in all", "operations", "half within", "99 in 100 within"]
    return (
        f'<section>{title}<p class="lead">Of completed operations: the key that came last of those '
        "needed, and so ended the wait. Longest total first.</p>"
        f'<div class="card scroll">{_table(heads, rows, meter=1)}</div></section>'
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
        f'<section>{title}<p class="lead">{count(summary.rejected_rows)} rows meant nothing and '
        "were put aside, each with its reason; the rest went on without them.</p>"
        f'<div class="card scroll">{_table(heads, rows)}</div></section>'
    )


def _table(heads: Iterable[str], rows: Iterable[Iterable[str]], *, meter: int = -1) -> str:
    """A table; a cell that brings no tag of its own is an ordinary one."""

    def line(name: str, cells: Iterable[str]) -> str:
        drawn = ""
        for number, content in enumerate(cells):
            if content.startswith(("<th", "<td")):
                drawn += content
            else:
                class_ = ' class="meter"' if number == meter else ""
                drawn += f"<{name}{class_}>{content}</{name}>"
        return f"<tr>{drawn}</tr>"

    head, body = line("th", heads), "".join(line("td", row) for row in rows)
    return f"<table><thead>{head}</thead><tbody>{body}</tbody></table>"


def duration(ms: int) -> str:
    """In one piece: lines do not break inside."""
    return units.duration(ms).replace(" ", "\u00a0")


def share(part: int, whole: int) -> str:
    return units.share(part, whole).replace(" ", "\u00a0")


def _operations(number: int) -> str:
    return f"{count(number)} operation{'' if number == 1 else 's'}"


_PRESENT = (
    '<svg viewBox="0 0 16 16"><line x1="8" y1="0" x2="8" y2="16" class="present"></line></svg>'
)
_HOLLOW = '<svg viewBox="0 0 16 16"><circle cx="8" cy="8" r="5" class="mark hollow"></circle></svg>'
_SOLID = '<svg viewBox="0 0 16 16"><circle cx="8" cy="8" r="5" class="mark solid"></circle></svg>'
