"""What README.md and docs/ say is true: their code runs, and their names are the code's names.

Each python block is a program of its own, run in a fresh namespace. Where a line ends in
`print(...)  # text`, the text is what it prints, and so are the comments a block ends with. `test_`
functions in a block are run too, on a `ManualClock`. Blocks on Spark need a Java.
"""

from __future__ import annotations

import inspect
import logging
import pkgutil
import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import sojourn
import sojourn.aio
import sojourn.client
import sojourn.durable
import sojourn.errors
import sojourn.history
import sojourn.kafka
import sojourn.metrics
import sojourn.replay
import sojourn.service
import sojourn.spark
from tests.checkout import ROOT
from tests.client.service import ServiceThread

if TYPE_CHECKING:
    import types
    from collections.abc import Iterator


def blocks(name: str) -> list[Any]:
    """The python blocks of a page, each named by its line."""
    text = (ROOT / name).read_text(encoding="utf-8")
    found = []
    for match in re.finditer(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        line = text.count("\n", 0, match.start(1)) + 1
        on_spark = " on spark" if "sojourn.spark" in match[1] else ""
        found.append(pytest.param(match[1], name, line, id=f"{name}:{line}{on_spark}"))
    assert found, f"{name} has no python blocks"
    return found


@pytest.fixture
def service_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A service with nothing in it."""
    monkeypatch.delenv("SOJOURN_TOKEN", raising=False)
    service = ServiceThread(tmp_path / "service")
    yield service.url
    service.close()


@pytest.mark.parametrize(
    ("code", "page", "line"),
    blocks("README.md")
    + blocks("docs/guide.md")
    + blocks("docs/progress.md")
    + blocks("docs/production.md")
    + blocks("docs/data.md")
    + blocks("docs/metrics.md")
    + blocks("docs/durable.md")
    + blocks("docs/service.md")
    + blocks("docs/history.md")
    + blocks("docs/client.md"),
)
def test_the_code_on_the_page_runs(
    code: str,
    page: str,
    line: int,
    capsys: pytest.CaptureFixture[str],
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if "durable" in code:  # it writes files
        monkeypatch.chdir(tmp_path)
    if "sojourn.spark" in code:
        request.getfixturevalue("spark")  # or it is skipped
    if "sojourn.client" in code:
        monkeypatch.setenv("SOJOURN_URL", request.getfixturevalue("service_url"))
    log = logging.getLogger("sojourn")  # a page may change its level
    request.addfinalizer(partial(log.setLevel, log.level))
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(compile("\n" * (line - 1) + code, str(ROOT / page), "exec"), namespace)
    for name, value in list(namespace.items()):
        if name.startswith("test_"):
            value(sojourn.ManualClock())
    promised = re.findall(r"print\(.*\)  # (.+)$", code, re.MULTILINE)
    if last := re.search(r"(^# .+\n)+\Z", code, re.MULTILINE):
        promised += [line.removeprefix("# ") for line in last[0].splitlines()]
    if promised:
        assert capsys.readouterr().out.splitlines() == promised


def test_the_readme_names_the_two_commands_and_keeps_room_for_numbers() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "make demo" in readme
    assert "make test" in readme
    assert "make bench" in readme
    assert "\n## Numbers\n" in readme
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for command in set(re.findall(r"\bmake ([a-z]+)\b", readme)):
        assert f"\n{command}:" in makefile, f"the README names `make {command}`"


@pytest.mark.parametrize(
    "page", ["README.md", "CHANGELOG.md", *(f"docs/{p.name}" for p in (ROOT / "docs").glob("*.md"))]
)
def test_links_between_pages_lead_somewhere(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)", text):
        if "://" not in target:
            assert ((ROOT / page).parent / target).exists(), f"{page} links to {target}"


def public(module: types.ModuleType) -> set[str]:
    """The names a module offers: not its submodules, not what it imports for itself."""
    own = f"{module.__name__}."
    return {
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and not inspect.ismodule(value)
        and (module is sojourn or f"{getattr(value, '__module__', '')}.".startswith(own))
    }


def sections() -> dict[str, str]:
    """docs/api.md by its headings: `## `sojourn.Timer`` and what stands below it."""
    text = (ROOT / "docs/api.md").read_text(encoding="utf-8")
    parts = re.split(r"^## `([\w.]+)`$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.mark.parametrize(
    "module",
    [
        sojourn,
        sojourn.aio,
        sojourn.client,
        sojourn.durable,
        sojourn.errors,
        sojourn.history,
        sojourn.service,
        sojourn.metrics,
        sojourn.replay,
        sojourn.spark,
    ],
)
def test_every_public_name_has_a_section_in_the_api_page(module: types.ModuleType) -> None:
    names = public(module)
    assert names
    missing = {f"{module.__name__}.{name}" for name in names} - set(sections())
    # The base class is offered at the top and lives with the other errors.
    assert missing - {"sojourn.errors.SojournError"} == set()


@pytest.mark.parametrize("name", sections())
def test_every_member_the_api_page_lists_exists(name: str) -> None:
    thing: Any = pkgutil.resolve_name(name) if "." in name else None  # None: a fixture
    members = re.findall(r"^- `(\w+)", sections()[name], re.MULTILINE)
    fields = getattr(thing, "__annotations__", {})
    missing = [member for member in members if not hasattr(thing, member) and member not in fields]
    assert missing == []
