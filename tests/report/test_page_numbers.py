"""Every number on the page, computed again from the outcomes, one by one."""

from __future__ import annotations

import json
import random
import re
from collections import Counter, defaultdict
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sojourn import report
from sojourn.report.advisor import LADDER_MS
from sojourn.report.bins import bin_of, start_of
from sojourn.report.units import count, duration, moment, percent, share
from tests.report import naive_advice
from tests.report.naive_advice import Naive
from tests.report.reading import Element, read_page
from tests.report.rows import Row, outcome, random_rows, simulated, table

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS


def shop(seed: int) -> tuple[list[Row], list[Row], list[Row]]:
    """Outcomes, pending and rejected rows of two classes over ten hours, each with a timeout."""
    rng = random.Random(seed)
    span_ms = 10 * HOUR_MS

    def quick(rng: random.Random) -> float | None:
        return None if rng.random() < 0.1 else rng.expovariate(1 / MINUTE_MS)

    def slow(rng: random.Random) -> float | None:
        return rng.lognormvariate(13, 1)

    rows = simulated(rng, 900, quick, span_ms=span_ms, timeout_ms=10 * MINUTE_MS, kind="order")
    rows += simulated(
        rng, 500, slow, span_ms=span_ms, timeout_ms=15 * MINUTE_MS, kind="refund", first=900
    )
    for n in range(40):
        at_ms = rng.randrange(span_ms)
        more: dict[str, Any] = {"timeout_ms": 10 * MINUTE_MS, "kind": "order"}
        rows.append(outcome(2_000 + n, "cancelled", at_ms, rng.randrange(60_000), **more))
    for row in rows:
        if row["by_key"] is not None:
            row["by_key"] = f"key-{rng.randrange(30)}"
    pending = [
        {"id": f"p{n}", "submitted_ms": span_ms - 1_000 * n, "timeout_ms": HOUR_MS, "class": "x"}
        for n in range(3)
    ]
    rejected = [
        {"table": "signals", "reason": "key is null", "row": "{}"},
        *({"table": "operations", "reason": "id is null", "row": "{}"} for _ in range(2)),
    ]
    return rows, pending, rejected


CASES: dict[str, tuple[list[Row], list[Row], list[Row]]] = {
    "a shop": shop(1),
    "another shop": shop(2),
    **{f"random {seed}": (random_rows(seed), [], []) for seed in (1, 2, 5, 8, 11)},
}


class Page:
    """A page, and the rows that it is made from."""

    def __init__(self, case: str) -> None:
        self.rows, self.pending, self.rejected = CASES[case]
        schema = pa.schema(
            [
                ("id", pa.string()),
                ("submitted_ms", pa.int64()),
                ("timeout_ms", pa.int64()),
                ("class", pa.string()),
            ]
        )
        tables = report.Stays.of_tables(
            table(self.rows),
            pa.Table.from_pylist(self.pending, schema),
            pa.Table.from_pylist(self.rejected, report_rejected()),
            class_column="class",
        )
        self.numbers = report.count(tables)
        self.page = read_page(report.page(self.numbers))
        self.sections = {section.one("h2").text: section for section in self.page.all("section")}

    def of_class(self, name: str) -> tuple[list[Row], list[Row]]:
        if name == "all operations":
            return self.rows, self.pending
        return (
            [row for row in self.rows if (row["class"] or "(none)") == name],
            [row for row in self.pending if row["class"] == name],
        )

    def naive(self, name: str) -> Naive:
        rows, pending = self.of_class(name)
        return naive_advice.watch(rows, pending, end_ms=naive_advice.data_end(self.rows))


def report_rejected() -> Any:
    return pa.schema([("table", pa.string()), ("reason", pa.string()), ("row", pa.string())])


@pytest.fixture(params=CASES, scope="module")
def page(request: pytest.FixtureRequest) -> Page:
    return Page(request.param)


def rank(values: list[int], percentile: int) -> int:
    return sorted(values)[-(-len(values) * percentile // 100) - 1]


def waits_of(rows: list[Row], status: str) -> list[int]:
    return [row["waited_ms"] for row in rows if row["status"] == status]


# Totals.


def test_the_headline_and_the_tiles(page: Page) -> None:
    whole = len(page.rows) + len(page.pending) + 2 * bool(page.rejected)
    number = Counter(row["status"] for row in page.rows)
    assert page.page.one("h1").text == (
        f"{count(whole)} operation{'s' if whole != 1 else ''}: "
        f"{share(number['completed'], whole)} completed, "
        f"{share(number['expired'], whole)} ran out of time"
    )
    tiles = [tile.text for tile in page.page.all("div", "tile")]
    expected = []
    for status in ("completed", "expired", "cancelled"):
        waits = waits_of(page.rows, status)
        more = "none"
        if waits:
            more = f"p50 {duration(rank(waits, 50))}, p99 {duration(rank(waits, 99))}"
        expected.append(f"{status} {count(len(waits))} {share(len(waits), whole)} {more}")
    if page.pending:
        part = share(len(page.pending), whole)
        expected.append(f"pending {len(page.pending)} {part} had not ended when the rows did")
    if page.rejected:
        expected.append("rejected 3 rows 2 of them operations")
    assert tiles == expected
    first_ms = min(row["submitted_ms"] for row in page.rows)
    last_ms = max(row["at_ms"] for row in page.rows)
    text = page.page.one("header").all("p")[1].text
    assert text == f"From {moment(first_ms)} to {moment(last_ms)} UTC."


def test_the_waits(page: Page) -> None:
    expected = []
    for status in ("completed", "expired", "cancelled"):
        waits = waits_of(page.rows, status)
        durations = ["–"] * 3
        if waits:
            durations = [duration(rank(waits, n)) for n in (50, 99, 100)]
        expected.append([status, count(len(waits)), *durations])
    assert page.sections["How long they waited"].rows == expected


def test_when_most_waited(page: Page) -> None:
    lead = page.sections["When"].one("p", "lead").text
    found = re.match(r"At most ([\d,]+) waited, on (.+?)\.(.*)", lead)
    assert (found is None) == (lead == "")
    if found is None:
        return
    step = re.search(r"Waiting every (.+?)(?: Expired|$)", page.sections["When"].text)
    assert step is not None
    step_ms = in_ms(step[1])
    first_ms, last_ms = (
        pick(row[name] for row in page.rows)
        for pick, name in ((min, "submitted_ms"), (max, "at_ms"))
    )
    begun = [row["submitted_ms"] for row in (*page.rows, *page.pending)]
    waiting = {
        at_ms: sum(b <= at_ms for b in begun) - sum(row["at_ms"] <= at_ms for row in page.rows)
        for at_ms in range(first_ms // step_ms * step_ms, last_ms + step_ms, step_ms)
    }
    most = max(waiting.values())
    assert found[1] == count(most)
    assert found[2] == moment(min(at_ms for at_ms, n in waiting.items() if n == most))
    pending = " Pending operations are among those waiting." if page.pending else ""
    assert found[3] == pending


def in_ms(text: str) -> int:
    """The step of a chart, read back."""
    numbers = {"ms": 1, "s": 1_000, "min": MINUTE_MS, "h": HOUR_MS, "d": 24 * HOUR_MS}
    number, unit = text.split()
    return int(number) * numbers[unit]


def test_the_keys(page: Page) -> None:
    waits = defaultdict(list)
    for row in page.rows:
        if row["by_key"] is not None:
            waits[row["by_key"]].append(row["waited_ms"])
    ranking = sorted(waits, key=lambda key: (-sum(waits[key]), key))
    expected = [
        [
            key.strip(),
            "",
            duration(sum(waits[key])),
            count(len(waits[key])),
            duration(rank(waits[key], 50)),
            duration(rank(waits[key], 99)),
        ]
        for key in ranking[:15]
        if sum(waits[key])
    ]
    section = page.sections["The keys waited for longest"]
    assert (section.rows if expected else []) == expected


def test_the_rejected_rows(page: Page) -> None:
    section = page.sections["Rejected rows"]
    if not page.rejected:
        assert section.one("p").text == "None."
        return
    assert section.rows == [["id is null", "operations", "2"], ["key is null", "signals", "1"]]
    assert section.one("p", "lead").text.startswith("3 rows ")


# The advisor.


def need(found: tuple[int | None, int, int | None]) -> str:
    ms, least, most = found
    if ms is None or most is None:
        return f"not known at least {duration(least)}"
    return f"{duration(ms)} ({duration(least)} to {duration(most)})"


def verdict(naive: Naive, timeouts: tuple[int, int, int] | None) -> str:
    if timeouts is None or not naive.got:
        return "○ not known"
    if timeouts[2] > 1:
        return "◆ several timeouts"
    (_, least, most), (enough, *_) = naive.need(0.99), naive.need(0.999)
    if timeouts[0] < least:
        return "▲ too tight"
    if most is None:
        return "○ not known"
    if enough is not None and timeouts[0] >= 2 * max(enough, most):
        return "▼ longer than needed"
    return "● fits"


def advisor(page: Page) -> Element:
    return page.sections["What the timeout should have been"]


def names(page: Page) -> list[str]:
    sizes = Counter(row["class"] or "(none)" for row in (*page.rows, *page.pending))
    return ["all operations", *sizes]


def test_the_advice(page: Page) -> None:
    found = {}
    for first, *cells in advisor(page).one("div", "advice").rows:
        name = re.split(r" [▲●▼◆○]", first)[0]
        found[name] = [first, *cells]
    assert next(iter(found)) == "all operations"
    assert set(found) == set(names(page))
    for name, (first, present, for_99, for_999, too_late, gets_it, number) in found.items():
        rows, pending = page.of_class(name)
        naive, timeouts = page.naive(name), naive_advice.commonest_timeout([*rows, *pending])
        assert first == f"{name} {verdict(naive, timeouts)}"
        assert timeouts is not None
        assert present == duration(timeouts[0]) + (", mostly" if timeouts[2] > 1 else "")
        assert for_99 == (need(naive.need(0.99)) if naive.got else "–")
        assert for_999 == (need(naive.need(0.999)) if naive.got else "–")
        late = sum(row["status"] == "expired" and row["condition_ms"] is not None for row in rows)
        assert too_late == f"{share(late, naive.got)} {count(late)}"
        if naive.waits:
            assert gets_it == f"{percent(naive.within_horizon)} in {duration(naive.horizon_ms)}"
        else:
            assert gets_it == "–"
        assert number == count(len(rows) + len(pending))


def test_of_several_timeouts_each_counts_for_its_own_operations() -> None:
    """One in a hundred expired too early, each by its own timeout; not all by the commonest."""
    rows = [outcome(n, "completed", 0, 500, timeout_ms=1_000, kind="quick") for n in range(500)]
    rows += [outcome(n, "completed", 0, 5_000, timeout_ms=9_000, kind="slow") for n in range(490)]
    rows += [outcome(n, "expired", 0, 9_000, 9_500, kind="slow") for n in range(10)]
    page = read_page(
        report.page(report.count(report.Stays.of_tables(table(rows), class_column="class")))
    )
    cells = page.one("div", "advice").rows[0]
    assert cells[4] == "1.00 % 10" or cells[4] == "1.0 % 10"


def test_the_ladder(page: Page) -> None:
    tables = advisor(page).all("div", "ladder")
    shown = [name for name in class_order(page) if page.naive(name).got]
    naives = [page.naive(name) for name in shown]
    expected = []
    for timeout_ms in LADDER_MS:
        known = [naive if timeout_ms <= naive.horizon_ms else None for naive in naives]
        losses = [naive.lost(timeout_ms) if naive else None for naive in known]
        if any(lost and 0 < lost[0] < 1 for lost in losses):
            text = [
                f"{percent(lost[0])} ({percent(lost[1])} to {percent(lost[2])})"
                if lost
                else "not known"
                for lost in losses
            ]
            expected.append([duration(timeout_ms), *text])
    assert [row for each in tables for row in each.rows] == expected


def class_order(page: Page) -> list[str]:
    return [
        re.split(r" [▲●▼◆○]", first)[0] for first, *_ in advisor(page).one("div", "advice").rows
    ]


def test_what_any_timeout_would_do(page: Page) -> None:
    for line in advisor(page).one("div", "whatif").all("tr")[1:]:
        naive = page.naive(line.one("th").text)
        assert int(line.attributes["data-watched"]) == len(naive.waits)
        assert float(line.attributes["data-ever"]) == pytest.approx(naive.ever, abs=1e-8)
        points = [
            tuple(map(int, each.split(","))) for each in line.attributes["data-points"].split(";")
        ]
        assert points[-1][0] == naive.horizon_ms
        assert len(points) == len({timeout_ms for timeout_ms, *_ in points})
        for timeout_ms, expire, lost in points:
            assert expire == pytest.approx(1e6 * naive.at(timeout_ms)[0], abs=1)
            assert lost == pytest.approx(1e6 * naive.lost(timeout_ms)[0], abs=1)
        check_between(naive, points)


def check_between(naive: Naive, points: list[tuple[int, ...]]) -> None:
    """For a timeout between two points the former is taken: what differs is at most 1 in 64."""
    for (timeout_ms, expire, _), (next_ms, *_) in pairwise(points):
        for time, waiting, _ in naive.steps:
            if timeout_ms * 65 / 64 + 1 < time < next_ms * 63 / 64 - 1:
                assert expire == pytest.approx(1e6 * waiting, abs=1)


def test_what_is_counted(page: Page) -> None:
    naive, (rows, pending) = page.naive("all operations"), page.of_class("all operations")
    if not naive.got:
        return
    notes = [note.text for note in advisor(page).one("ul", "notes").all("li")]
    cancelled = sum(row["status"] == "cancelled" for row in rows)
    assert f"{count(len(naive.waits))} operation" in notes[0]
    assert f"of {count(len(rows) + len(pending))}. {count(naive.got)} got their event" in notes[0]
    assert notes[1].startswith(f"Not counted: {count(cancelled)} operation")
    assert f"waits up to {duration(naive.horizon_ms)}:" in notes[2]
    assert f"{percent(naive.within_horizon)} get their event" in notes[2]
    assert f"{percent(naive.in_second_half)} of all in its second half" in notes[2]
    assert f"taken to be {percent(naive.ever)} of all" in notes[3]
    end_ms = naive_advice.data_end(rows)
    assert end_ms is not None
    assert f"taken to end on {moment(end_ms)}." in advisor(page).all("p", "lead")[0].text


def test_the_cards_say_the_same_in_words(page: Page) -> None:
    for card in advisor(page).all("div", "card"):
        if not card.all("h3"):
            continue
        name = card.one("h3").text
        rows, pending = page.of_class(name)
        naive, timeouts = page.naive(name), naive_advice.commonest_timeout([*rows, *pending])
        assert timeouts is not None
        text = card.one("p", "said").text
        for part in (0.99, 0.999):
            ms, least, most = naive.need(part)
            words = f"{duration(ms or 0)} ({duration(least)} to {duration(most or 0)})"
            if ms is None or most is None:
                words = f"at least {duration(least)}, how much more is not known"
            assert words in text
        assert duration(timeouts[0]) in text
        lost = re.search(r", (.*?) expire before their event comes", text)
        if lost:
            assert lost[1] == percent(naive.lost(timeouts[0])[0])
        vain = re.search(r"keeps ([\d,]+) operation", text)
        if vain:
            expired = [row for row in rows if row["status"] == "expired"]
            assert vain[1] == count(sum(row["condition_ms"] is None for row in expired))
        several = re.search(r"There are (.*?) different timeouts", text)
        assert (several[1] if several else "1") == count(timeouts[2])


def read_outs(section: Element, says: str) -> list[str]:
    """What the charts of that kind say where they are pointed at."""
    charts = [svg for svg in section.all("svg") if says in svg.attributes.get("aria-label", "")]
    return [text for svg in charts for _, text in json.loads(svg.attributes.get("data-read", "[]"))]


def test_what_the_charts_of_time_say(page: Page) -> None:
    section = page.sections["When"]
    step = re.search(r"Waiting every (.+?)(?: Expired|$)", section.text)
    assert step is not None
    step_ms = in_ms(step[1])
    if step_ms < 1_000:  # moments are written in seconds
        return
    by_moment = {}
    first_ms = min(row["submitted_ms"] for row in page.rows) // step_ms * step_ms
    for at_ms in range(first_ms, max(row["at_ms"] for row in page.rows) + step_ms, step_ms):
        begun = sum(row["submitted_ms"] <= at_ms for row in (*page.rows, *page.pending))
        waiting = begun - sum(row["at_ms"] <= at_ms for row in page.rows)
        expired = sum(
            row["status"] == "expired" and at_ms - step_ms < row["at_ms"] <= at_ms
            for row in page.rows
        )
        by_moment[moment(at_ms)] = waiting, expired
    for text in read_outs(section, "Waiting operations"):
        at, waiting = re.fullmatch(r"(.*): ([\d,]+) waiting", text).groups()  # type: ignore[union-attr]
        assert count(by_moment[at][0]) == waiting
    for text in read_outs(section, "Expiries"):
        at, expired = re.fullmatch(r".* to (.*): ([\d,]+) expired", text).groups()  # type: ignore[union-attr]
        assert count(by_moment[at][1]) == expired


def test_the_bars_add_up(page: Page) -> None:
    """Their edges are rounded where they are written, so no more can be read back."""
    section = page.sections["How long they waited"]
    number: Counter[str] = Counter()
    for text in read_outs(section, "Waiting times"):
        for many, status in re.findall(r"([\d,]+) (completed|expired|cancelled)", text):
            number[status] += int(many.replace(",", ""))
    for status in ("completed", "expired", "cancelled"):
        drawn = len([svg for svg in section.all("svg") if "data-read" in svg.attributes])
        assert number[status] == drawn * len(waits_of(page.rows, status))


def test_what_the_curves_say(page: Page) -> None:
    for card in advisor(page).all("div", "card"):
        if not card.all("h3"):
            continue
        naive = page.naive(card.one("h3").text)
        known: dict[
            str, set[int]
        ] = {}  # what a curve may say at one of its points; durations are rounded
        for number in range(bin_number(naive.horizon_ms) + 1):
            for ms in (start_of(number + 1) - 1, naive.horizon_ms):
                known.setdefault(duration(ms), set()).add(ms)
        for text in read_outs(card, "share that would have expired"):
            found = re.fullmatch(
                r"timeout (.*): (.*) expire before their event \((.*) to (.*)\)", text
            )
            assert found is not None
            shares = [tuple(map(percent, naive.lost(ms))) for ms in known[found[1]]]
            assert found.groups()[1:] in shares


def bin_number(ms: int) -> int:
    return int(bin_of(np.array([ms], np.uint64))[0])


def test_a_comparison_has_the_numbers_of_both_pages() -> None:
    pages = [Page(case) for case in ("a shop", "another shop")]
    compared = read_page(report.comparison(pages[0].numbers, pages[1].numbers, ("A", "B")))
    for page, name in zip(pages, "AB", strict=True):
        alone = {
            re.split(r" [▲●▼◆○]", first)[0]: (first, cells)
            for first, *cells in advisor(page).one("div", "advice").rows
        }
        for class_, (first, cells) in alone.items():
            verdict = first.removeprefix(class_)
            lines = {row[0]: row for row in compared.one("div", "advice").rows}
            line = lines[f"{class_} {name}{verdict}"]
            present, for_99, for_999, too_late, gets_it, number = cells
            rows, pending = page.of_class(class_)
            expired = sum(row["status"] == "expired" for row in rows)
            whole = len(rows) + len(pending)
            assert line[1:] == [
                *(number, f"{share(expired, whole)} {count(expired)}", too_late),
                *(present, for_99, for_999, gets_it),
            ]


def test_the_footer_claims_no_more_than_is_true(page: Page) -> None:
    text = page.page.one("footer").text
    assert "none is estimated" not in text
    assert "is estimated where the data ends too soon to count it, and has bounds" in text
