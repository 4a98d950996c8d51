"""The page stands alone, says everything without its script, and is legible in light and dark."""

from __future__ import annotations

import re
import shutil
import subprocess
from html.parser import HTMLParser
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from report_rows import Row, outcome, random_rows, stays, table

from sojourn import report, sample
from sojourn.report.style import DARK, LIGHT
from sojourn.report.svg import Scale, count_ticks, duration_ticks, moment_ticks
from sojourn.report.units import count, duration, moment, share

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("chrome")
VOID = {"meta", "link", "br"}


class Reader(HTMLParser):
    """Checks that elements are closed in order; keeps what a reader without the script sees."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.said: list[str] = []
        self.addresses: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []
        self.text = " ".join("".join(self.said).replace("\u00a0", " ").split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag in ("td", "th", "div", "p", "li", "dd", "text"):
            self.said.append(" ")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("script", "style"):
            self.said.append(data)


def page_of(rows: list[Row], **options: Any) -> str:
    return report.page(report.count(stays(rows, **options)))


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
    reader = Reader(page)
    drawn = page.split("<style>")[0] + page.split("</style>")[1].split("<script>")[0]
    assert not re.search(r"\b(nan|NaN|inf|None|Infinity)\b", drawn)
    assert f"{count(len(CASES[case]))} operation" in reader.text


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
    assert [address for address in Reader(page).addresses if address != "data:,"] == []
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
    assert Reader(page).text.count(evil) >= 3


def test_the_page_says_in_words_what_it_counts_and_what_it_leaves_out() -> None:
    rows = [
        outcome(1, "completed", 0, 5_000),
        outcome(2, "expired", 0, 30_000, 40_000),
        outcome(3, "expired", 0, 30_000, None),
        outcome(4, "cancelled", 0, 10, None),
        outcome(5, "cancelled", 0, 10, 20),
    ]
    said = Reader(page_of(rows)).text
    assert "5 operations: 20.0 % completed, 40.0 % ran out of time" in said
    assert "the 3 operations whose condition held at some time" in said
    assert "Never could complete: 1 operations" in said
    assert "Left out: 1 operations that were cancelled" in said
    assert "present timeout 30 s" in said


def test_a_timeout_that_is_too_tight_or_too_long_is_called_so() -> None:
    tight = [outcome(n, "completed", 0, n) for n in range(90)]
    tight += [outcome(n, "expired", 0, 100, 60_000) for n in range(10)]
    assert "▲ too tight" in page_of(tight)
    long = [outcome(n, "completed", 0, n) for n in range(90)] + [outcome(99, "expired", 0, 10**6)]
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
    said = Reader(report.page(report.count(tables))).text
    assert "id is null operations 2 key is null signals 1" in said
    assert "3 operations" in said


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
    ("ms", "said"),
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
def test_durations_read_as_people_say_them(ms: int, said: str) -> None:
    assert duration(ms) == said


@pytest.mark.parametrize(
    ("part", "whole", "said"),
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
def test_shares_never_round_to_none_or_all(part: int, whole: int, said: str) -> None:
    assert share(part, whole) == said


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


# In a browser.


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium here to look at the page with")
def test_a_browser_draws_the_page_and_its_script_runs_without_errors(tmp_path: Path) -> None:
    assert CHROMIUM is not None
    path = tmp_path / "report.html"
    # A page that fails says so in its title; what would go out to the network is an error too.
    watch = (
        "<script>const wrong=[];"
        "addEventListener('error',event=>wrong.push(event.message||'load'),true);"
        "addEventListener('securitypolicyviolation',event=>wrong.push(event.blockedURI));"
        "addEventListener('load',()=>{"
        "const svg=document.querySelector('.cards svg[data-read]'),box=svg.getBoundingClientRect();"
        "svg.dispatchEvent(new PointerEvent('pointermove',{clientX:box.left+box.width*.6}));"
        "const read=svg.closest('figure').querySelector('.read').textContent;"
        "const wide=document.documentElement.scrollWidth>innerWidth?' too wide':'';"
        "document.title='wrong: '+wrong.join()+'; read: '+read+wide})</script>"
    )
    page = page_of(random_rows(2) + random_rows(8), class_column="class")
    path.write_text(page.replace("<style>", f"{watch}<style>", 1), encoding="utf-8")
    command = [
        CHROMIUM,
        *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
        *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
        *(f"--user-data-dir={tmp_path / 'profile'}", "--window-size=500,900", "--dump-dom"),
        path.as_uri(),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=True)
    title = re.search(r"<title>(.*?)</title>", done.stdout)
    assert title is not None
    assert re.fullmatch(r"wrong: ; read: timeout .* would expire, .* of .*", title[1])
