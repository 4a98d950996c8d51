"""The dashboard in a real browser, over a real service; and what its files may contain."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

pytest.importorskip("starlette", reason="the service needs its extras")

from sojourn.service.tokens import Tokens
from tests.service.harness import Running, running

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
Browser, Page = playwright.Browser, playwright.Page
expect = playwright.expect

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
ASSETS = {entry.name: entry for entry in (files("sojourn.service.dashboard") / "assets").iterdir()}
LONG_MS = 120_000
expect.set_options(timeout=LONG_MS)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("there is no chromium; on Debian: apt-get install chromium")
    with playwright.sync_playwright() as driver:
        launched = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("dashboard")) as one:
        yield one


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A page in a fresh profile; whatever the browser complains of fails the test."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    context.set_default_timeout(LONG_MS)
    opened = context.new_page()
    complaints: list[str] = []
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    opened.on("console", lambda line: complaints.append(line.text) if _is_bad(line) else None)
    opened.on("dialog", lambda dialog: complaints.append(f"dialog: {dialog.message}"))
    yield opened
    context.close()
    assert complaints == []


def _is_bad(line: Any) -> bool:
    """Network errors are the page's own business to show."""
    return line.type in ("error", "warning") and "Failed to load resource" not in line.text


def show(page: Any, served: Running, path: str = "/") -> None:
    page.goto(served.url + path)
    page.locator("#numbers").wait_for()


def submit(served: Running, id: str, *requires: tuple[str, int], **more: Any) -> None:
    asked = [{"key": key, "offset": offset} for key, offset in requires]
    row = {"id": id, "requires": asked, "timeout_ms": 600_000, **more}
    answer = served.http.post("/v1/operations", json=row)
    assert answer.status_code == 201, answer.text


def status_of(served: Running, id: str) -> str:
    card: str = served.http.get(f"/v1/operations/{quote(id, safe='')}").json()["status"]
    return card


# What it shows.


def test_an_empty_service_says_how_to_begin(page: Any, tmp_path: Path) -> None:
    with running(tmp_path) as served:
        show(page, served)
        expect(page.locator("#verdict-title")).to_have_text("Nothing waits yet.")
        expect(page.locator("#first-steps-code")).to_contain_text(f"curl {served.url}/v1/signals")
        page.goto("about:blank")


def test_the_page_shows_the_numbers_of_the_state(page: Any, tmp_path: Path) -> None:
    with running(tmp_path) as served:
        submit(served, "one", ("order-1/paid", 1), **{"class": "order"})
        submit(served, "two", ("order-1/paid", 2), ("stock", 5), **{"class": "order"})
        served.end("three")
        show(page, served)
        expect(page.locator("#verdict-title")).to_have_text("It is fine.")
        expect(page.locator(".tile.waiting .many")).to_have_text("2")
        expect(page.locator(".tile.completed")).to_contain_text("1 since the start")
        key = page.locator("#keys tr").first
        expect(key.locator("th")).to_have_text("order-1/paid")
        expect(key.locator("td").first).to_have_text("2")
        expect(page.locator("#oldest tr").first).to_contain_text("one")
        expect(page.locator("#classes tr").first).to_contain_text("(no class)")
        expect(page.locator("#wheel .level").last).to_contain_text("2 wait")
        served.end(*(f"more-{n}" for n in range(20)))  # the page follows by itself
        expect(page.locator(".tile.completed")).to_contain_text("21 since the start")
        page.goto("about:blank")


def test_a_class_that_expires_is_the_headline(page: Any, tmp_path: Path) -> None:
    with running(tmp_path) as served:
        for n in range(25):
            submit(served, f"o-{n}", ("stock/mug", 9), **{"class": "order"}, timeout_ms=1)
        show(page, served)
        expect(page.locator("#verdict-title")).to_have_text("100 % of “order” expire.")
        expect(page.locator("#findings")).to_contain_text("100 % of them lacked stock/mug")
        expect(page.locator("#findings")).to_contain_text(re.compile("since [0-9:]{8}"))
        page.locator("#findings a").click()
        expect(page.locator("#found")).to_contain_text("Nothing by that name")
        page.goto("about:blank")


# Searching and acting.


def test_search_says_which_requirements_hold_and_a_cancel_asks_first(
    page: Any, served: Running
) -> None:
    submit(served, "order/7", ("o7/paid", 1), ("o7/packed", 1), payload={"to": "ann"})
    served.signal("o7/paid")
    show(page, served)
    page.get_by_label("Find by id or key").fill("order/7")
    page.get_by_role("button", name="Find").click()
    card = page.locator("#found")
    expect(card).to_contain_text("1 of 2 requirements hold; 2 are needed.")
    expect(card.locator("tbody tr").nth(0)).to_contain_text("✓ holds")
    expect(card.locator("tbody tr").nth(1)).to_contain_text("✗ does not hold")
    expect(card).to_contain_text(re.compile(r"time left\s*9 min"))
    expect(card.locator("pre")).to_contain_text('"to": "ann"')
    card.get_by_role("button", name="Cancel the operation…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Cancel order/7?")
    dialog.get_by_role("button", name="Let it wait").click()
    expect(dialog).to_be_hidden()
    assert status_of(served, "order/7") == "waiting"
    card.get_by_role("button", name="Cancel the operation…").click()
    dialog.get_by_role("button", name="Cancel the operation").click()
    expect(dialog).to_be_hidden()
    expect(card.locator("h2")).to_contain_text("cancelled")
    assert status_of(served, "order/7") == "cancelled"


def test_a_signal_from_the_page_completes_what_waits(page: Any, served: Running) -> None:
    large = 2**62 + 1  # more than JavaScript's numbers hold
    submit(served, "large", ("counter", large))
    show(page, served, "/#find=counter")
    card = page.locator("#found")
    expect(card.locator("tbody tr")).to_contain_text("4,611,686,018,427,387,905")
    card.get_by_role("button", name="Signal this key…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("Offset")).to_have_value(str(large))
    dialog.get_by_label("Offset").fill("many")
    dialog.get_by_role("button", name="Signal").click()
    expect(dialog.get_by_role("alert")).to_contain_text("whole number")
    dialog.get_by_label("Offset").fill(str(large))
    dialog.get_by_role("button", name="Signal").click()
    expect(dialog).to_be_hidden()
    expect(card).to_contain_text("waiting0 operations")
    assert status_of(served, "large") == "completed"


def test_the_keyboard_is_enough(page: Any, served: Running) -> None:
    submit(served, "by-keyboard", ("nobody", 1))
    show(page, served)
    page.keyboard.press("Tab")
    expect(page.locator(":focus")).to_have_text("To the numbers")
    page.keyboard.press("Enter")
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.id") == "find-input":
            break
    page.keyboard.type("by-keyboard")
    page.keyboard.press("Enter")
    expect(page.locator("#found h2")).to_be_focused()
    for _ in range(10):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.dataset.name") == "cancel":
            break
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
    expect(page.locator(":focus")).to_have_text("Let it wait")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    expect(page.locator(":focus")).to_have_text("Cancel the operation…")  # also after new numbers
    with page.expect_response("**/v1/state"):
        pass
    expect(page.locator(":focus")).to_have_text("Cancel the operation…")
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator("#found h2")).to_contain_text("cancelled")


HOSTILE = [
    '<img src=x onerror="window.hacked=1">',
    "<script>window.hacked=1</script>",
    '"\' onmouseover=window.hacked=1 x="',
    "javascript:window.hacked=1",
    "</td></table><style>*{display:none}</style>",
    "a/b?c#find=d%2F&e;\\",
    "‮right to left‬ and \u200b nothing",
    "{{constructor.constructor('window.hacked=1')()}}",
    "x" * 200,
]


def test_hostile_names_and_payloads_are_only_ever_text(page: Any, tmp_path: Path) -> None:
    with running(tmp_path) as served:
        for n, name in enumerate(HOSTILE):
            more = {"class": name, "payload": {name: [name]}}
            submit(served, name, (name, 1), ("never", 1), **more)
            submit(served, f"ends-{n}", (f"ends-{n}", 1), **more)
            served.signal(f"ends-{n}")
        served.http.put(f"/v1/subscriptions/{quote(HOSTILE[0], safe='')}", json={})
        show(page, served)
        plain = page.evaluate("document.querySelectorAll('script, style, img, iframe').length")
        for name in HOSTILE:
            expect(page.locator("#oldest a").filter(has_text=name.strip()).first).to_be_attached()
            row = page.locator("#classes th").filter(has_text=name.strip()).first
            expect(row).to_be_attached()
            page.goto(f"{served.url}/#find={quote(name, safe='')}")
            card = page.locator("#found")
            expect(card.locator("h2").first).to_contain_text(name.strip())
            expect(card.locator("pre").first).to_be_attached()
            card.get_by_role("button", name="Cancel the operation…").click()
            expect(page.locator("#confirm-title")).to_have_text(f"Cancel {name}?")
            page.keyboard.press("Escape")
        assert page.evaluate("window.hacked") is None
        # The same elements as before: nothing became one.
        assert plain == page.evaluate(
            "document.querySelectorAll('script, style, img, iframe').length"
        )
        page.goto("about:blank")


def test_the_policy_stops_a_script_that_got_in_all_the_same(browser: Any, served: Running) -> None:
    context = browser.new_context()
    opened = context.new_page()
    show(opened, served)
    assert opened.evaluate(
        """async () => {
            const seen = new Promise((told) => addEventListener(
                "securitypolicyviolation", (event) => told(event.effectiveDirective)));
            const script = document.createElement("script");
            script.textContent = "window.hacked = 1";
            document.body.append(script);
            return [await seen, window.hacked ?? null];
        }"""
    ) == ["script-src-elem", None]
    context.close()


# When something is amiss.


def test_numbers_are_marked_as_old_when_the_service_is_gone(page: Any, tmp_path: Path) -> None:
    with running(tmp_path) as served:
        show(page, served)
        expect(page.locator("#connection")).to_have_text("live")
    expect(page.locator("#connection")).to_contain_text("The service cannot be reached.")
    expect(page.locator("#connection")).to_contain_text("The numbers are from ")
    expect(page).to_have_title("No answer · Sojourn")
    expect(page.locator("body")).to_have_class("stale")


def test_a_service_that_takes_no_commands_says_why(
    page: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(tmp_path) as served:  # in which nothing else was ever wrong
        submit(served, "waits", ("a", 1))
        monkeypatch.setattr(served.service, "trouble", lambda: "the disk is full")
        show(page, served)
        expect(page.locator("#verdict-title")).to_have_text("The service takes no commands.")
        expect(page.locator("#findings")).to_contain_text("the disk is full")
        monkeypatch.undo()
        expect(page.locator("#verdict-title")).to_have_text("It is fine.")


def test_nothing_is_asked_while_the_page_is_hidden(page: Any, served: Running) -> None:
    asked: list[str] = []
    show(page, served)
    hide = """(isHidden) => {
        Object.defineProperty(document, "hidden", {value: isHidden, configurable: true});
        document.dispatchEvent(new Event("visibilitychange"));
    }"""
    page.evaluate(hide, True)
    expect(page.locator("#connection")).to_have_text("paused while nobody looks")
    page.on("request", lambda request: asked.append(request.url))
    page.wait_for_timeout(1_200)  # longer than the time between two questions
    assert asked == []
    page.evaluate(hide, False)
    expect(page.locator("#connection")).to_have_text("live")
    assert asked


READ, WRITE = "r" * 32, "w" * 32


def test_a_token_is_asked_for_and_kept_in_the_tab(page: Any, tmp_path: Path) -> None:
    tokens = Tokens({READ: frozenset({"read"}), WRITE: frozenset({"read", "write"})})
    with running(tmp_path, token=WRITE, tokens=tokens) as served:
        submit(served, "guarded", ("k", 1))
        page.goto(served.url)
        field = page.get_by_label("Token with the scope")
        expect(field).to_be_focused()
        expect(page.locator("#numbers")).to_be_hidden()
        field.fill("wrong-" * 4)
        field.press("Enter")
        expect(page.locator("#token-problem")).to_have_text("the token is not known here")
        field.fill(READ)
        field.press("Enter")
        expect(page.locator("#verdict-title")).to_have_text("It is fine.")
        page.goto("about:blank")
        show(page, served, "/#find=guarded")  # it was kept
        page.get_by_role("button", name="Cancel the operation…").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_role("button", name="Cancel the operation").click()
        expect(dialog.get_by_role("alert")).to_contain_text("this needs the scope write")
        assert status_of(served, "guarded") == "waiting"
        other = page.context.new_page()  # another tab has to ask again
        other.goto(served.url)
        expect(other.get_by_label("Token with the scope")).to_be_visible()
        other.close()
        page.goto("about:blank")


# How it looks.


def test_the_theme_follows_the_system_until_it_is_chosen(page: Any, served: Running) -> None:
    def ground() -> Any:
        return page.evaluate("getComputedStyle(document.body).backgroundColor")

    show(page, served)
    page.emulate_media(color_scheme="light")
    light = ground()
    page.emulate_media(color_scheme="dark")
    dark = ground()
    assert light != dark
    page.get_by_label("Theme").select_option("light")
    assert ground() == light
    page.reload()
    assert ground() == light
    page.emulate_media(color_scheme="light")
    page.get_by_label("Theme").select_option("dark")
    assert ground() == dark


def test_no_width_makes_the_page_scroll_sideways(page: Any, served: Running) -> None:
    submit(served, "y" * 200, ("z" * 200, 1), **{"class": "c" * 100})
    show(page, served, f"/#find={'y' * 200}")
    expect(page.locator("#found h2")).to_contain_text("y" * 200)
    for width in (390, 700, 768, 1000, 1280, 1600):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_everything_has_a_name_for_those_who_listen(page: Any, served: Running) -> None:
    submit(served, "heard", ("k9", 1))
    show(page, served, "/#find=heard")
    expect(page.locator("#found h2")).to_contain_text("heard")
    unnamed = page.evaluate(
        """() => {
            const lacks = [];
            const named = (node) =>
                node.labels?.length || node.ariaLabel || node.textContent.trim();
            for (const node of document.querySelectorAll("input, select, button, a"))
                if (!named(node)) lacks.push(node.outerHTML);
            for (const svg of document.querySelectorAll("svg[role=img]"))
                if (!svg.getAttribute("aria-label") && !svg.querySelector("title")?.textContent)
                    lacks.push(svg.outerHTML);
            for (const table of document.querySelectorAll("table"))
                if (![...table.tHead.rows[0].cells].every((cell) => cell.scope === "col")
                    || ![...table.tBodies[0].rows].every((row) =>
                        row.className === "empty" || row.cells[0].scope === "row"))
                    lacks.push(table.outerHTML);
            for (const node of document.querySelectorAll("section, dialog"))
                if (!document.getElementById(node.getAttribute("aria-labelledby")))
                    lacks.push(node.id);
            return lacks;
        }"""
    )
    assert unnamed == []
    for landmark in ("banner", "main", "search", "contentinfo"):
        expect(page.get_by_role(landmark)).to_have_count(1)
    assert (
        page.evaluate(
            "document.querySelectorAll('[aria-live], [role=status], [role=alert]').length"
        )
        <= 4
    )


# The files.


@pytest.mark.parametrize("path", ["/", *(f"/dashboard/{name}" for name in sorted(ASSETS))])
def test_every_file_has_a_strict_policy(served: Running, path: str) -> None:
    answer = served.http.get(path)
    assert answer.status_code == 200
    policy = answer.headers["content-security-policy"]
    for part in (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
    ):
        assert part in policy.split("; ")
    assert "unsafe" not in policy
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "same-origin"


@pytest.mark.parametrize(
    "name", ["../pages.py", "..%2Fpages.py", "nothing.js", "%00", "index.html/"]
)
def test_no_other_file_is_served(served: Running, name: str) -> None:
    answer = served.http.get(f"/dashboard/{name}")
    assert answer.status_code == 404


@pytest.mark.parametrize("name", sorted(ASSETS))
def test_the_files_have_nothing_inline_and_nothing_from_elsewhere(name: str) -> None:
    text = ASSETS[name].read_text(encoding="utf-8")
    assert "innerHTML" not in text
    assert "insertAdjacentHTML" not in text
    assert "document.write" not in text
    assert not re.search(r"\beval\(|new Function|setTimeout\(\s*[\"']", text)
    assert set(re.findall(r"https?://[^\"' )]+", text)) <= {"http://www.w3.org/2000/svg"}
    if name.endswith(".html"):
        assert not re.search(r"\sstyle=|\son\w+=|<style|javascript:", text)
        assert re.findall(r"<script[^>]*>(.*?)</script>", text, re.DOTALL) == [""]


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def test_text_and_shapes_stand_out_from_what_is_behind_them() -> None:
    css = ASSETS["style.css"].read_text(encoding="utf-8")
    light, by_system, chosen = (
        dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block))
        for block in re.findall(r"color-scheme: (?:light|dark);\n(.*?)\}", css, re.DOTALL)
    )
    assert by_system == chosen
    for colours in (light, chosen):
        grounds = [colours["ground"], colours["card"]]
        verdicts = [colours[f"{level}-ground"] for level in ("fine", "warn", "bad")]
        for text in ("ink", "quiet", "link"):
            assert min(contrast(colours[text], ground) for ground in grounds) >= 4.5, text
        for text in ("ink", "link"):
            assert min(contrast(colours[text], ground) for ground in verdicts) >= 4.5, text
        for text in ("expired", "fine", "long", "bad"):
            assert contrast(colours[text], colours["card"]) >= 4.5, text
        assert contrast(colours["card"], colours["link"]) >= 4.5  # the main button
        for level in ("fine", "warn", "bad"):
            assert contrast(colours[level], colours[f"{level}-ground"]) >= 4.5, level
        for shape in ("completed", "expired", "cancelled", "waiting", "submitted", "edge"):
            assert contrast(colours[shape], colours["card"]) >= 3, shape
        assert contrast(colours["completed"], colours["slot"]) >= 3
