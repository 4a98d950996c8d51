"""The advisor's part of the page: a verdict for each class, curves, and any timeout one types."""

from __future__ import annotations

from html import escape

from sojourn.report import charts
from sojourn.report.advisor import Advice, Verdict
from sojourn.report.html import duration, exactly, operations, percent, share, table
from sojourn.report.numbers import Numbers
from sojourn.report.survival import LEAST_WATCHED, Need, Point
from sojourn.report.units import count, moment

_TITLE = "<h2>What the timeout should have been</h2>"
_VERDICTS = {
    Verdict.TIGHT: "▲ too tight",
    Verdict.FITS: "● fits",
    Verdict.LONG: "▼ longer than needed",
    Verdict.MIXED: "◆ several timeouts",
    Verdict.UNKNOWN: "○ not known",
}
_LEAST_WATCHED = f"1 in {round(1 / LEAST_WATCHED)}"


def advice_section(numbers: Numbers) -> str:
    """The section; it says why if there is no advice."""
    if numbers.advice is None:
        return _without(
            "These outcomes say neither when conditions held after the deadline nor which timeouts "
            "there were. Replay the same rows (<code>sojourn replay</code>); the report of that "
            "has the answer."
        )
    advice = [one for one in numbers.advice if one.got]
    if not advice:
        return _without(
            "No condition held while anybody looked, so nothing is known about other timeouts."
        )
    several = len(numbers.advice) > 1
    low_ms, high_ms = charts.timeouts_span(advice)
    cards = "".join(
        _card(one, low_ms, high_ms, whole=several and one is numbers.advice[0]) for one in advice
    )
    per = f", by {escape(str(numbers.class_column))}" if several else ""
    return (
        f'<section>{_TITLE}<p class="lead">The share of operations that would have expired before '
        f"their event came, for every timeout{per}. p99 and p99.9 are of the time until "
        f"the event; in brackets: 95 % bounds. {_ends(numbers)}</p>"
        f"{_table(numbers.advice)}{_what_if(advice)}"
        f'<div class="cards">{cards}</div>'
        f"{_ladder(advice)}{_notes(numbers)}</section>"
    )


def verdict(advice: Advice) -> str:
    name = advice.verdict
    return f'<span class="verdict {name.value}">{_VERDICTS[name]}</span>'


def present(advice: Advice) -> str:
    """The timeout in use."""
    if advice.present is None:
        return "not known"
    text = exactly(advice.present.timeout_ms)
    return text if advice.present.only_one else f"{text}, mostly"


def need(need: Need | None) -> str:
    """A timeout that is needed, with its bounds; or how much of it is known."""
    if need is None:
        return "–"
    if need.ms is None or need.at_most_ms is None:
        return f"not known<small>at least {exactly(need.at_least_ms)}</small>"
    return (
        f"{exactly(need.ms)}<small>({duration(need.at_least_ms)} to {duration(need.at_most_ms)})"
        "</small>"
    )


def came_too_late(advice: Advice) -> str:
    """Of those that got their event: how many had expired before."""
    if advice.too_late is None:
        return "not known"
    return f"{share(advice.too_late, advice.got)}<small>{count(advice.too_late)}</small>"


def gets_it(advice: Advice) -> str:
    if not advice.watched:
        return "–"
    return f"{percent(advice.within_horizon)}<small>in {duration(advice.horizon_ms)}</small>"


def _without(why: str) -> str:
    return f'<section>{_TITLE}<p class="lead">{why}</p></section>'


def _ends(numbers: Numbers) -> str:
    if numbers.data_end_ms is None:
        return ""
    return f"The data is taken to end on {moment(numbers.data_end_ms)}."


def _table(advice: list[Advice]) -> str:
    rows = [
        [
            f"<th>{escape(one.name)}<div>{verdict(one)}</div></th>",
            present(one),
            need(one.for_99),
            need(one.for_999),
            came_too_late(one),
            gets_it(one),
            count(one.operations),
        ]
        for one in advice
    ]
    heads = [
        "present timeout is",
        "present timeout",
        "p99",
        "p99.9",
        "expired, and the event came later",
        "get their event",
        "operations",
    ]
    return f'<div class="card scroll advice">{table(heads, rows)}</div>'


def _what_if(advice: list[Advice]) -> str:
    """Any timeout, typed; the script fills the table in."""
    rows = "".join(
        f'<tr data-watched="{one.watched}" data-ever="{one.ever:.9f}" '
        f'data-points="{_points_data(one)}">'
        f"<th>{escape(one.name)}</th><td></td><td></td></tr>"
        for one in advice
    )
    shown = next((one.present.timeout_ms for one in advice if one.present), 60_000)
    return (
        '<div class="card whatif"><label>What if the timeout were '
        f'<input type="text" value="{duration(shown)}" size="12" autocomplete="off" '
        'spellcheck="false" aria-describedby="whatif-help"></label>'
        '<span id="whatif-help">e.g. 90 s, 30 min, 1 h 30 min, 2 d</span>'
        '<div class="scroll"><table><thead><tr><th></th><th>would expire</th>'
        "<th>of these, get their event later</th></tr></thead>"
        f'<tbody aria-live="polite">{rows}</tbody></table></div></div>'
    )


def _points_data(advice: Advice) -> str:
    """Timeout, and the two shares in millionths; where nothing changes, only the first.

    Timeouts that people choose, and the present one, are among them.
    """
    chosen = [*advice.ladder, *([advice.at_present] if advice.at_present else [])]
    by_timeout = {point.timeout_ms: point for point in (*advice.curve, *chosen)}
    points = [by_timeout[ms] for ms in sorted(by_timeout)]
    changes: list[tuple[int, int, int]] = []
    for point in points:
        shares = round(point.expire * 10**6), round(point.lost * 10**6)
        if not changes or changes[-1][1:] != shares or point is points[-1]:
            changes.append((point.timeout_ms, *shares))
    return ";".join(",".join(map(str, each)) for each in changes)


def _card(advice: Advice, low_ms: int, high_ms: int, *, whole: bool) -> str:
    entries = []
    if advice.present:
        entries.append((_PRESENT, "present timeout", exactly(advice.present.timeout_ms)))
    entries.append((_HOLLOW, "p99", need(advice.for_99)))
    entries.append((_SOLID, "p99.9", need(advice.for_999)))
    legend = "".join(
        f"<dt>{glyph}<span>{what}</span></dt><dd>{text}</dd>" for glyph, what, text in entries
    )
    chart = charts.timeouts(advice, low_ms, high_ms)
    if whole:
        chart = charts.timeouts(advice, low_ms, high_ms, charts.TWO_CARDS, "wide")
        chart += charts.timeouts(advice, low_ms, high_ms, class_="narrow")
    return (
        f'<div class="card{" whole" if whole else ""}">'
        f'<div class="head"><h3>{escape(advice.name)}</h3>{verdict(advice)}</div>'
        f'<p class="said">{_in_words(advice)}</p>'
        f'<figure>{chart}<p class="read"></p></figure>'
        f'<dl class="legend">{legend}</dl></div>'
    )


def _in_words(advice: Advice) -> str:
    present, for_99, for_999 = advice.present, advice.for_99, advice.for_999
    assert for_99 is not None
    assert for_999 is not None
    text = f"p99 {_need_in_words(for_99)}, p99.9 {_need_in_words(for_999)}."
    if present is None:
        return f"The outcomes do not say which timeouts there were. {text}"
    timeout = duration(present.timeout_ms)
    name = advice.verdict
    if name is Verdict.MIXED:
        several = count(present.timeouts) if present.exact else "very many"
        return f"There are {several} different timeouts, {timeout} the commonest. {text}"
    if name is Verdict.LONG and for_999.ms is not None:
        vain = advice.ended[1] - (advice.too_late or 0)
        gains = f" It keeps {operations(vain)} waiting in vain." if vain else ""
        return f"{timeout} is at least twice the p99.9.{gains} {text}"
    if advice.at_present is None:
        return (
            f"The present timeout, {timeout}, is longer than the waits that the data can tell "
            f"about. {text}"
        )
    lost = percent(advice.at_present.lost)
    return f"With {timeout}, {lost} expire before their event comes. {text}"


def _need_in_words(need: Need) -> str:
    if need.ms is None or need.at_most_ms is None:
        return f"at least {duration(need.at_least_ms)}, how much more is not known"
    return f"{duration(need.ms)} ({duration(need.at_least_ms)} to {duration(need.at_most_ms)})"


def _ladder(advice: list[Advice]) -> str:
    """The curve as a table, for timeouts that people choose."""
    by_timeout = [{point.timeout_ms: point for point in one.ladder} for one in advice]
    telling = {ms for points in by_timeout for ms, at in points.items() if 0 < at.lost < 1}
    if not telling:
        return ""
    rows = [
        [
            f"<th>{duration(timeout_ms)}</th>",
            *(_lost(points.get(timeout_ms)) for points in by_timeout),
        ]
        for timeout_ms in sorted(telling)
    ]
    heads = ["timeout", *(escape(one.name) for one in advice)]
    return (
        "<details><summary>The same as a table</summary>"
        f'<div class="card scroll ladder">{table(heads, rows)}</div></details>'
    )


def _lost(point: Point | None) -> str:
    if point is None:
        return "not known"
    return (
        f"{percent(point.lost)}<small>({percent(point.lost_least)} to {percent(point.lost_most)})"
        "</small>"
    )


def _notes(numbers: Numbers) -> str:
    assert numbers.advice is not None
    whole = numbers.advice[0]
    cancelled = whole.ended[2]
    seen_until = (
        "also after they expired, until the data ends"
        if numbers.looks_after_deadlines
        else "until their deadline; nobody looked after it"
    )
    notes = [
        f"Counted: {operations(whole.watched)} of {count(whole.operations)}. "
        f"{count(whole.got)} got their event. The others were seen waiting, {seen_until}. An "
        "operation that was not seen for long enough counts for as long as it was seen "
        "(Kaplan–Meier).",
        f"Not counted: {operations(cancelled)} that were cancelled"
        + (
            f", and {count(whole.cut_off)} whose deadline is after the end of the data: of these "
            "only the quick ones can have ended."
            if whole.cut_off
            else "."
        ),
        f"The data can tell about waits up to {duration(whole.horizon_ms)}: the longest for which "
        f"at least {_LEAST_WATCHED} operations could be seen. Within that, "
        f"{percent(whole.within_horizon)} get their event, {percent(whole.in_second_half)} of all "
        "in its second half.",
        "Whether the others ever get theirs, nobody knows. p99 is the smallest timeout with which "
        "99 % complete of those that get it at all, and these are taken to be "
        f"{percent(whole.ever)} of all: as many come after that time as did in its second half, "
        "unless that is more than there are. The lower bound supposes that none comes.",
        "Not known: the upper bound lies beyond the waits that the data can tell about. More data, "
        "over a longer time, would show it.",
        "With a timeout of t those whose wait is longer than t expire; a wait of exactly t "
        "completes.",
        "Too tight: the present timeout is below the lower bound of p99. Longer than needed: at "
        "least twice the p99.9, and twice the upper bound of p99.",
    ]
    if numbers.rounded_to_bits is not None:
        parts = count(2 ** (numbers.rounded_to_bits - 1))
        notes.append(f"There are so many different waits that they are rounded up, to 1/{parts}.")
    listed = "".join(f"<li>{note}</li>" for note in notes)
    return (
        "<details><summary>What is counted, and what the data cannot tell</summary>"
        f'<ul class="notes">{listed}</ul></details>'
    )


_PRESENT = (
    '<svg viewBox="0 0 16 16"><line x1="8" y1="0" x2="8" y2="16" class="present"></line></svg>'
)
_HOLLOW = '<svg viewBox="0 0 16 16"><circle cx="8" cy="8" r="5" class="mark hollow"></circle></svg>'
_SOLID = '<svg viewBox="0 0 16 16"><circle cx="8" cy="8" r="5" class="mark solid"></circle></svg>'
