"""docs/architecture.md names files that exist, and what it says is in them is in them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import sojourn
from tests.checkout import ROOT

PACKAGE = Path(sojourn.__file__).parent
PAGE = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
# A file, perhaps with the name of something in it, or a folder.
NAMED = re.compile(r"`((?:\w+/)*\w+(?:\.(?:py|pxd|js|toml))?)/?`(?:, `(\w+)`)?")


class Named(NamedTuple):
    section: str
    file: str
    name: str  # of something in the file, or nothing
    folders: tuple[Path, ...]  # where the section has been so far, or begins

    def path(self) -> Path | None:
        """Where it is: below the package, in the checkout, or beside a file named before it."""
        candidates = [PACKAGE / self.file, ROOT / self.file, *(f / self.file for f in self.folders)]
        return next((path for path in reversed(candidates) if path.exists()), None)


def named() -> Iterator[Named]:
    """Every file that the page names, in order. A section begins in the core."""
    for section in re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]:
        folders = [
            PACKAGE / "core",
            *map(PACKAGE.joinpath, re.findall(r"`sojourn\.(\w+)`", section)),
        ]
        for match in NAMED.finditer(section):
            one = Named(section.splitlines()[0], match[1], match[2] or "", tuple(folders))
            path = one.path()
            if "." in one.file:
                yield one
                folders += [path.parent] if path else []
            elif path and path.is_dir():
                folders.append(path)


def test_every_file_that_the_page_names_exists() -> None:
    assert [(one.section, one.file) for one in named() if one.path() is None] == []


def test_what_the_page_says_is_in_a_file_is_in_it() -> None:
    pairs = [one for one in named() if one.name]
    assert len(pairs) > 20
    missing = [
        (one.file, one.name)
        for one in pairs
        if (path := one.path()) and not re.search(rf"\b{one.name}\b", path.read_text("utf-8"))
    ]
    assert missing == []


def test_every_step_that_the_page_names_is_in_the_core() -> None:
    source = "\n".join(path.read_text("utf-8") for path in (PACKAGE / "core").glob("*.py"))
    steps = set(re.findall(r"`(?:\w+\.)?(_sj_\w+)", PAGE))
    assert steps
    assert {step for step in steps if f"def {step}(" not in source} == set()


def test_every_function_that_the_page_names_with_its_module_is_there() -> None:
    functions = re.findall(r"`(\w+)\.(\w+)`", PAGE)
    modules = {path.stem: path.read_text("utf-8") for path in (PACKAGE / "core").glob("*.py")}
    ours = {(module, name) for module, name in functions if module in modules and name != "py"}
    assert len(ours) > 10
    assert {each for each in ours if f"def {each[1]}(" not in modules[each[0]]} == set()


@pytest.mark.parametrize(
    "room",
    sorted(path.stem for path in PACKAGE.iterdir() if not path.name.startswith(("_", "py."))),
)
def test_every_room_has_its_paragraph(room: str) -> None:
    rooms = PAGE.split("## The rooms")[1].split("\n## ")[0]
    assert f"**{room}**" in rooms
