"""Two reports side by side: this week against last, or what new timeouts would have done."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from operator import methodcaller

from sojourn.report import charts
from sojourn.report.advice_section import came_too_late, gets_it, need, present, verdict
from sojourn.report.advisor import Advice
from sojourn.report.html import document, exactly, operations, share, table
from sojourn.report.numbers import Numbers, Summary
from sojourn.report.stays import STATUSES
from sojourn.report.units import count, duration, moment


def comparison(before: Numbers, after: Numbers, names: tuple[str, str]) -> str:
    """Both as one HTML document; the names say which is which."""
    sections = [_head(before, after, names), _totals(before.summary, after.summary, names)]
    sections.append(_advice(before, after, names))
    return document(f"{names[0]} and {names[1]}", sections)


def _head(before: Numbers, after: Numbers, names: tuple[str, str]) -> str:
    text = [
        f"{share(one.summary.count('expired'), one.summary.operations)} of "
        f"{operations(one.summary.operations)} expired in {escape(name)}"
        for one, name in zip((before, after), names, strict=True)
    ]
    spans = "".join(
        f"<p><b>{escape(name)}</b>: {_span(one)}</p>"
        for one, name in zip((before, after), names, strict=True)
    )
    return (
        '<header><p class="eyebrow">Sojourn report, two side by side</p>'
        f"<h1>{text[0]}, {text[1]}</h1>{spans}</header>"
    )


def _span(numbers: Numbers) -> str:
    if numbers.first_ms is None or numbers.last_ms is None:
        return "no operation has ended"
    return f"from {moment(numbers.first_ms)} to {moment(numbers.last_ms)} UTC"


def _totals(before: Summary, after: Summary, names: tuple[str, str]) -> str:
    rows = [_counted("operations", before, after, lambda one: one.operations)]
    rows += [_counted(name, before, after, methodcaller("count", name)) for name in STATUSES]
    if before.pending or after.pending:
        rows.append(_counted("pending", before, after, lambda one: one.pending or 0))
    if before.rejected or after.rejected:
        rows.append(
            _counted("rejected operations", before, after, lambda one: one.rejected_operations)
        )
    for status, measure in ((s, m) for s in STATUSES for m in ("median_ms", "p99_ms")):
        waits_ms = [
            getattr(next(w for w in one.waits if w.status == status), measure)
            for one in (before, after)
        ]
        if any(ms is not None for ms in waits_ms):
            name = "p50" if measure == "median_ms" else "p99"
            rows.append([f"<th>{status}, {name} of the wait</th>", *map(exactly, waits_ms), ""])
            if None not in waits_ms:
                rows[-1][-1] = _longer(waits_ms[1] - waits_ms[0])
    heads = ["", *map(escape, names), "change"]
    return (
        f'<section><h2>How they ended</h2><div class="card scroll totals">{table(heads, rows)}'
        "</div></section>"
    )


def _counted(
    name: str, before: Summary, after: Summary, number: Callable[[Summary], int]
) -> list[str]:
    """A row with a number of operations in both, as a share too."""
    cells = [
        f"{count(number(one))}<small>{share(number(one), one.operations)}</small>"
        for one in (before, after)
    ]
    return [f"<th>{name}</th>", *cells, _more(number(after) - number(before))]


def _more(by: int) -> str:
    return "0" if by == 0 else f"{'+' if by > 0 else '−'}{count(abs(by))}"


def _longer(by_ms: int) -> str:
    return "0" if by_ms == 0 else f"{'+' if by_ms > 0 else '−'}{duration(abs(by_ms))}"


def _advice(before: Numbers, after: Numbers, names: tuple[str, str]) -> str:
    by_name = [{one.name: one for one in numbers.advice or []} for numbers in (before, after)]
    classes = list(dict.fromkeys([*by_name[1], *by_name[0]]))
    if not classes:
        return ""
    rows = []
    for class_ in classes:
        for advice, name in zip((one.get(class_) for one in by_name), names, strict=True):
            text = f"<div>{verdict(advice)}</div>" if advice else ""
            first = f"<th>{escape(class_)}<small>{escape(name)}</small>{text}</th>"
            rows.append([first, *(_cells(advice) if advice else ["–"] * 7)])
    heads = [
        *("", "operations", "expired", "expired, and the event came later", "present timeout"),
        *("p99", "p99.9", "get their event"),
    ]
    pairs = [
        (by_name[0][class_], by_name[1][class_])
        for class_ in classes
        if all(class_ in one and one[class_].got for one in by_name)
    ]
    cards = ""
    if pairs:
        low_ms, high_ms = charts.timeouts_span([one for pair in pairs for one in pair])
        cards = "".join(_card(*pair, low_ms, high_ms, names) for pair in pairs)
    return (
        '<section><h2>Timeouts</h2><p class="lead">For each class both, and the share of '
        "operations that would have expired before their event came, for every timeout. In "
        "brackets: 95 % bounds; each report by itself says what is counted.</p>"
        f'<div class="card scroll advice">{table(heads, rows)}</div>'
        f'<div class="cards">{cards}</div></section>'
    )


def _cells(advice: Advice) -> list[str]:
    expired = advice.ended[1]
    return [
        count(advice.operations),
        f"{share(expired, advice.operations)}<small>{count(expired)}</small>",
        came_too_late(advice),
        present(advice),
        need(advice.for_99),
        need(advice.for_999),
        gets_it(advice),
    ]


def _card(before: Advice, after: Advice, low_ms: int, high_ms: int, names: tuple[str, str]) -> str:
    legend = "".join(
        f'<dt><svg viewBox="0 0 16 16"><line x1="0" y1="8" x2="16" y2="8" class="{class_}"></line>'
        f"</svg><span>{escape(name)}</span></dt><dd>p99 {need(one.for_99)}</dd>"
        for one, name, class_ in (
            (before, names[0], "curve before"),
            (after, names[1], "curve expired"),
        )
    )
    return (
        f'<div class="card"><div class="head"><h3>{escape(after.name)}</h3></div>'
        f"<figure>{charts.two_timeouts(before, after, low_ms, high_ms, names)}"
        f'<p class="read"></p></figure><dl class="legend">{legend}</dl></div>'
    )
