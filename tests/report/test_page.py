"""The page stands alone, says everything without its script, and is legible in light and dark."""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Iterator
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sojourn import report, sample
from sojourn.report.style import DARK, LIGHT
from sojourn.report.svg import Scale, count_ticks, duration_ticks, moment_ticks
from sojourn.report.units import count, duration, moment, share
from tests.report import naive_advice
from tests.report.reading import Element, read_page
from tests.report.rows import Row, outcome, random_rows, simulated, stays, table

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("chrome")


def page_of(rows: list[Row], **options: Any) -> str:
    return report.page(report.count(stays(rows, **options)))


def addresses(element: Element) -> list[str]:
    """Everything that the page refers to."""
    found = [value for name, value in element.attributes.items() if name in ("src", "href")]
    inside = [child for child in element.children if isinstance(child, Element)]
    return found + [address for child in inside for address in addresses(child)]


CASES = {
    "nothing": [],
    "one that completed at once": [outcome(1, "completed", 0, 0)],
    "one that expired at once": [outcome(1, "expired", 0, 0)],
    "one that was cancelled": [outcome(1, "cancelled", 5, 7)],
    "all completed": [outcome(n, "completed", n, n) for n in range(50)],
    "all expired, none could": [outcome(n, "expired", n, 1_000) for n in range(50)],
    "all cancelled": [outcome(n, "cancelled", n, n, 10 * n) for n in range(50)],
    "all at one moment": [outcome(n, "completed", 0, 60_000) for n in range(9)],
    "very long": [outcome(n, "expired", 0, 2**62 + n, 2**63 - 1) for n in range(3)],
    "before 1970": [outcome(n, "completed", -(10**12), 10**10 * n) for n in range(9)],
    **{f"random {seed}": random_rows(seed) for seed in range(8)},
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("class_column", [None, "class"])
def test_every_page_is_whole_and_free_of_nonsense(case: str, class_column: str | None) -> None:
    page = page_of(CASES[case], class_column=class_column)
    drawn = page.split("<style>")[0] + page.split("</style>")[1].split("<script>")[0]
    assert not re.search(r"\b(nan|NaN|inf|None|Infinity)\b", drawn)
    assert f"{count(len(CASES[case]))} operation" in read_page(page).text


@pytest.mark.parametrize("case", CASES)
def test_nothing_is_drawn_outside_its_picture(case: str) -> None:
    page = page_of(CASES[case], class_column="class")
    for width, height, content in re.findall(
        r'<svg viewBox="0 0 (\d+) (\d+)"(.*?)</svg>', page, re.DOTALL
    ):
        for name, value in re.findall(r' (x|x1|x2|cx|y|y1|y2|cy)="(-?[\d.]+)"', content):
            most = float(width) if "x" in name else float(height)
            assert -1 <= float(value) <= most + 1
        for size in re.findall(r' (?:width|height)="(-?[\d.]+)"', content):
            assert float(size) >= 0


def test_a_page_asks_nobody_for_anything() -> None:
    page = page_of(random_rows(1), class_column="class")
    assert set(addresses(read_page(page))) == {"data:,"}
    assert "default-src 'none'" in page
    assert not re.search(r"https?://|@import|url\(", page)


def test_what_people_wrote_stays_text() -> None:
    evil = "</script><script>alert(1)</script><b>&amp;"
    rows = [outcome(1, "completed", 0, 5, key=evil, kind=evil), outcome(2, "expired", 0, 5, 9)]
    rejected = pa.table({"table": ["signals"], "reason": [evil], "row": ["{}"]})
    tables = report.Stays.of_tables(table(rows), None, rejected, class_column="class")
    page = report.page(report.count(tables))
    assert page.count("<script>") == 1
    assert "<b>" not in page
    assert read_page(page).text.count(evil) >= 3


def test_the_page_says_in_words_what_it_counts_and_what_it_leaves_out() -> None:
    rows = [
        outcome(1, "completed", 0, 5_000),
        outcome(2, "expired", 0, 30_000, 40_000),
        outcome(3, "expired", 0, 30_000, None),
        outcome(4, "cancelled", 0, 10, None),
        outcome(5, "cancelled", 0, 10, 20),
    ]
    words = read_page(page_of(rows)).text
    assert "5 operations: 20.0 % completed, 40.0 % ran out of time" in words
    assert "Counted: 3 operations of 5. 2 got their event." in words
    assert "Not counted: 2 operations that were cancelled." in words
    assert "Whether the others ever get theirs, nobody knows." in words
    assert "present timeout 30 s" in words


def test_a_timeout_that_is_too_tight_or_too_long_is_called_so() -> None:
    tight = [outcome(n, "completed", 0, n, timeout_ms=100) for n in range(90)]
    tight += [outcome(n, "expired", 0, 100, 60_000) for n in range(10)]
    assert "▲ too tight" in page_of(tight)
    long = [outcome(n, "completed", 0, 1 + n % 90, timeout_ms=10**6) for n in range(9_000)]
    assert "▼ longer than needed" in page_of(long)


def test_rejected_rows_are_listed_by_reason() -> None:
    rejected = pa.table(
        {
            "table": ["signals", "operations", "operations"],
            "reason": ["key is null", "id is null", "id is null"],
            "row": ["{}"] * 3,
        }
    )
    tables = report.Stays.of_tables(table([outcome(1, "completed", 0, 5)]), None, rejected)
    words = read_page(report.page(report.count(tables))).text
    assert "id is null operations 2 key is null signals 1" in words
    assert "3 operations" in words


# Colours.


def luminance(colour: str) -> float:
    parts = [int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_text_and_shapes_stand_out(colours: dict[str, str]) -> None:
    for ground, name in product(("ground", "card"), colours):
        if name not in ("ground", "card", "rule"):
            assert contrast(colours[name], colours[ground]) >= 4.5, (name, ground)


# Units and axes.


@pytest.mark.parametrize(
    ("ms", "words"),
    [
        (0, "0 ms"),
        (1, "1 ms"),
        (999, "999 ms"),
        (1_000, "1 s"),
        (1_049, "1 s"),
        (1_050, "1.1 s"),
        (59_949, "59.9 s"),
        (59_950, "1 min"),
        (90_000, "1 min 30 s"),
        (1_800_000, "30 min"),
        (3_599_499, "59 min 59 s"),
        (3_599_500, "1 h"),
        (5_000_000, "1 h 23 min"),
        (86_400_000, "1 d"),
        (100_000_000, "1 d 4 h"),
        (400 * 86_400_000, "400 d"),
        (40 * 365 * 86_400_000, "40 years"),
    ],
)
def test_durations_read_as_people_say_them(ms: int, words: str) -> None:
    assert duration(ms) == words


@pytest.mark.parametrize(
    ("part", "whole", "words"),
    [
        (0, 0, "–"),
        (0, 5, "0 %"),
        (5, 5, "100 %"),
        (1, 3, "33.3 %"),
        (1, 1_000, "0.10 %"),
        (999, 1_000, "99.90 %"),
        (1, 10**9, "< 0.001 %"),
        (10**9 - 1, 10**9, "> 99.999 %"),
    ],
)
def test_shares_never_round_to_none_or_all(part: int, whole: int, words: str) -> None:
    assert share(part, whole) == words


def test_moments_are_utc_and_beyond_the_calendar_bare_milliseconds() -> None:
    assert moment(sample.START_MS) == "5 Jan 2026, 00:00"
    assert moment(sample.START_MS + 3_723_000) == "5 Jan 2026, 01:02:03"
    assert moment(2**62) == f"{2**62:,} ms"


@pytest.mark.parametrize("highest", [0, 1, 2, 3, 7, 9, 10, 11, 99, 100, 101, 1234, 10**9 + 1])
def test_ticks_of_counts_are_whole_and_reach_the_highest(highest: int) -> None:
    ticks = count_ticks(highest)
    assert ticks[0] == 0
    assert ticks[-1] >= highest
    assert 2 <= len(ticks) <= 6
    assert len(set(ticks)) == len(ticks)


def test_ticks_of_time_keep_their_distance() -> None:
    for span_ms in (10, 5_000, 10**6, 10**8, 10**10, 10**12, 10**15):
        across = Scale(sample.START_MS, sample.START_MS + span_ms, 50, 1_000)
        places = [x for x, _ in moment_ticks(across, 60)]
        assert len(places) < 20
        assert all(b - a >= 59 for a, b in pairwise(places))
        waits = Scale(1, span_ms, 50, 1_000, logarithmic=True)
        places = [x for x, _ in duration_ticks(waits, 60)]
        assert places
        assert all(b - a >= 59 for a, b in pairwise(places))


# Two reports side by side.


def compared(rows: list[Row], others: list[Row], **options: Any) -> Element:
    counted = [report.count(stays(each, **options)) for each in (rows, others)]
    return read_page(report.comparison(counted[0], counted[1], ("last week", "this week")))


def test_two_reports_stand_side_by_side() -> None:
    before = [outcome(n, "completed", 0, 1_000, timeout_ms=60_000) for n in range(70)]
    before += [outcome(n, "expired", 0, 60_000, 90_000) for n in range(70, 100)]
    after = [outcome(n, "completed", 0, 1_000, timeout_ms=100_000) for n in range(70)]
    after += [outcome(n, "completed", 0, 90_000, timeout_ms=100_000) for n in range(70, 99)]
    after += [outcome(99, "expired", 0, 100_000)]
    page = compared(before, after)
    assert page.one("h1").text == (
        "30.0 % of 100 operations expired in last week, 1.0 % of 100 operations expired in "
        "this week"
    )
    totals = {row[0]: row[1:] for row in page.one("div", "totals").rows}
    assert totals["operations"] == ["100 100 %", "100 100 %", "0"]
    assert totals["completed"] == ["70 70.0 %", "99 99.0 %", "+29"]
    assert totals["expired"] == ["30 30.0 %", "1 1.0 %", "−29"]
    assert totals["completed, p99 of the wait"] == ["1 s", "1 min 30 s", "+1 min 29 s"]
    old, new = page.one("div", "advice").rows
    assert old[:5] == [
        "all operations last week ▲ too tight",
        "100",
        "30.0 % 30",
        "30.0 % 30",
        "1 min",
    ]
    assert new[:5] == [
        "all operations this week ○ not known",
        "100",
        "1.0 % 1",
        "0 % 0",
        "1 min 40 s",
    ]


@pytest.mark.parametrize("case", CASES)
def test_every_comparison_is_whole_and_free_of_nonsense(case: str) -> None:
    page = compared(CASES[case], CASES["random 3"], class_column="class")
    assert not re.search(r"\b(nan|NaN|inf|None|Infinity)\b", page.text)


def test_a_class_that_only_one_of_them_has_is_said_to_be_missing() -> None:
    rows = [outcome(n, "completed", 0, 5, kind="order") for n in range(9)]
    others = [outcome(n, "completed", 0, 5, kind="refund") for n in range(9)]
    lines = compared(rows, others, class_column="class").one("div", "advice").rows
    assert ["order this week", *["–"] * 7] in lines
    assert ["refund last week", *["–"] * 7] in lines


# In a browser.


class Browser:
    """Opens pages, with a finger and a keyboard; whatever goes wrong on a page is an error."""

    def __init__(self, context: Any) -> None:
        self.page = context.new_page()
        self.wrong: list[str] = []
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("console", lambda words: self.wrong.append(words.text))
        self.page.on("request", lambda request: self._note(request.url))

    def _note(self, url: str) -> None:
        if not url.startswith(("file:", "data:")):
            self.wrong.append(url)

    def open(self, page: str, path: Path) -> None:
        path.write_text(page, encoding="utf-8")
        self.page.goto(path.as_uri())

    def text(self, selector: str) -> str:
        return " ".join(self.page.locator(selector).first.inner_text().split())

    def check_verdicts(self, expected: str) -> None:
        """All are seen without scrolling sideways, and the page is not wider than the phone."""
        assert self.page.evaluate("document.documentElement.scrollWidth") <= 390
        verdicts = self.page.locator(".advice .verdict").all()
        assert verdicts
        for verdict in verdicts:
            box = verdict.bounding_box()
            assert box is not None
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= 390
            assert verdict.inner_text() == expected


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("no chromium here to look at the page with")
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def phone(chromium: Any) -> Iterator[Browser]:
    context = chromium.new_context(viewport={"width": 390, "height": 844}, has_touch=True)
    browser = Browser(context)
    yield browser
    context.close()
    assert browser.wrong == []


def waits_in_hours() -> list[Row]:
    rng = random.Random(1)
    return simulated(
        rng,
        3_000,
        lambda rng: rng.expovariate(1 / 60_000),
        span_ms=36_000_000,
        timeout_ms=120_000,
        kind="order",
    )


def test_on_a_phone_the_verdict_is_seen_and_nothing_is_too_wide(
    phone: Browser, tmp_path: Path
) -> None:
    phone.open(page_of(waits_in_hours(), class_column="class"), tmp_path / "report.html")
    phone.check_verdicts("▲ too tight")


def test_a_finger_reads_values_off_a_chart(phone: Browser, tmp_path: Path) -> None:
    phone.open(page_of(waits_in_hours(), class_column="class"), tmp_path / "report.html")
    chart = phone.page.locator(".cards svg[data-read]:visible").first
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    assert box is not None
    phone.page.touchscreen.tap(box["x"] + 0.6 * box["width"], box["y"] + 50)
    words = phone.text(".cards .read")
    assert re.fullmatch(r"timeout .* expire before their event \(.* to .*\)", words)
    phone.page.touchscreen.tap(5, box["y"] + 50)
    assert phone.text(".cards .read") == ""


def test_any_timeout_can_be_typed(phone: Browser, tmp_path: Path) -> None:
    rows = waits_in_hours()
    phone.open(page_of(rows), tmp_path / "report.html")
    naive = naive_advice.watch(rows)
    field = phone.page.locator(".whatif input")
    assert field.input_value().replace("\u00a0", " ") == "2 min"
    for typed, ms, is_exact in (
        ("60 s", 60_000, True),
        ("2 min", 120_000, True),
        ("1.5min", 90_000, False),
        ("3 min 20 s", 200_000, False),
    ):
        field.fill(typed)
        words = phone.text(".whatif tbody td")
        found = re.fullmatch(r"([\d.]+) %, about ([\d,]+) of ([\d,]+)", words)
        assert found is not None
        share, number, whole = (float(part.replace(",", "")) for part in found.groups())
        assert whole == len(rows)
        assert share / 100 == pytest.approx(naive.at(ms)[0], abs=0.01)
        near = 1 if is_exact else 0.01 * len(rows)
        assert number == pytest.approx(len(rows) * naive.at(ms)[0], abs=near)
    for typed, answer in (("9 d", "not known"), ("soon", "type a number"), ("5", "type a number")):
        field.fill(typed)
        assert phone.text(".whatif tbody td").startswith(answer)


def test_without_the_script_the_rest_is_there(chromium: Any, tmp_path: Path) -> None:
    context = chromium.new_context(java_script_enabled=False)
    browser = Browser(context)
    browser.open(page_of(waits_in_hours(), class_column="class"), tmp_path / "report.html")
    assert not browser.page.locator(".whatif").is_visible()
    assert "p99" in browser.text(".advice")
    assert browser.page.locator(".cards svg.wide").first.is_visible()
    context.close()


def test_a_comparison_fits_a_phone(phone: Browser, tmp_path: Path) -> None:
    numbers = report.count(stays(waits_in_hours(), class_column="class"))
    phone.open(report.comparison(numbers, numbers, ("a", "b")), tmp_path / "comparison.html")
    phone.check_verdicts("▲ too tight")
