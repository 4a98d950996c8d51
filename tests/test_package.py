"""What is published: the sdist has all that the repository has, the wheel all that the package has.

Built here interpreted, which takes seconds; `make wheels` builds and tries the compiled ones.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import sojourn
from tests.checkout import ROOT

NOT_PUBLISHED = (".ci/", ".github/", ".gitignore")


def tracked() -> list[str]:
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        pytest.skip("not a checkout: git tells which files belong to it")
    done = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [
        name
        for name in done.stdout.splitlines()
        if not name.startswith(NOT_PUBLISHED) and (ROOT / name).exists()
    ]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the checkout, as a stranger would have it."""
    setuptools = pytest.importorskip("setuptools")
    if int(setuptools.__version__.partition(".")[0]) < 80:
        pytest.skip(f"building needs setuptools 80, and {setuptools.__version__} is installed")
    tree = tmp_path / "tree"
    for name in tracked():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, tree / name)
    return tree


def build(tree: Path, what: str, **environment: str) -> Path:
    """Have the backend build it; return the file."""
    out = tree.parent / "out"
    out.mkdir()
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            f"from setuptools import build_meta as b; b.build_{what}({str(out)!r})",
        ],
        cwd=tree,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (built,) = out.iterdir()
    return built


def fake_cython(tree: Path, cythonize: str) -> dict[str, str]:
    """An environment for a build, in which this stands for Cython; nothing can be compiled."""
    package = tree.parent / "fake" / "Cython"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "Build.py").write_text(f"def cythonize(extensions, **_): {cythonize}\n")
    return {"PYTHONPATH": str(package.parent), "CC": "false", "SOJOURN_PURE": ""}


def package_files() -> set[str]:
    return {name.removeprefix("src/") for name in tracked() if name.startswith("src/")}


def in_wheel(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


def test_the_sdist_has_everything_that_the_repository_has_and_translates_nothing(
    tree: Path,
) -> None:
    sdist = build(tree, "sdist", **fake_cython(tree, "raise RuntimeError('nothing to translate')"))
    top = f"sojourn-{sojourn.__version__}"
    assert sdist.name == f"{top}.tar.gz"
    with tarfile.open(sdist) as archive:
        names = {name.removeprefix(f"{top}/") for name in archive.getnames()}
    assert set(tracked()) - names == set()
    assert not [name for name in names if name.endswith((".so", ".pyc")) or "/target/" in name]


def test_an_interpreted_wheel_is_named_so_and_has_the_package_and_nothing_of_older_builds(
    tree: Path,
) -> None:
    before = tree / "build" / "lib" / "sojourn"
    before.mkdir(parents=True)
    for name in ("gone.py", "gone.cpython-311-x86_64-linux-gnu.so", "errors.cpython-311.so"):
        (before / name).write_text("")
    wheel = build(tree, "wheel", SOJOURN_PURE="1")
    assert wheel.name == f"sojourn-{sojourn.__version__}-py3-none-any.whl"
    assert in_wheel(wheel) == package_files()


def test_where_nothing_can_be_compiled_the_wheel_is_an_interpreted_one(tree: Path) -> None:
    wheel = build(tree, "wheel", **fake_cython(tree, "return extensions"))
    assert wheel.name == f"sojourn-{sojourn.__version__}-py3-none-any.whl"
    assert in_wheel(wheel) == package_files()


def test_the_command_says_its_version_and_build(capfd: pytest.CaptureFixture[str]) -> None:
    from sojourn.cli import main

    assert main(["--version"]) == 0
    build = "compiled" if sojourn.compiled else "interpreted"
    assert capfd.readouterr().out.startswith(f"sojourn {sojourn.__version__}, {build}, Python 3.")


def test_the_changelog_has_this_version() -> None:
    assert f"\n## {sojourn.__version__}" in (ROOT / "CHANGELOG.md").read_text()
