"""`make wheels`: build what is published, and try each of it in an environment of its own.

    python scripts/wheels.py [--python PATH]… [--no-pages] [--out dist] [--no-build]

An sdist from this tree; from the sdist, as anybody else would, a wheel for each Python, and one
that is interpreted. Each wheel goes into two fresh virtual environments:

    alone       nothing else is installed: it has the files of the sdist and no others, says which
                build it is, and a timer and a purgatory work
    with tests  the sdist's own tests of compiled modules run on it, away from the sources; on the
                oldest and the newest Python also the code of README.md and docs/, after
                `pip install 'sojourn[spark,…]'`

`--no-build` tries the wheels that are in `--out` already, `--no-pages` runs no page.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
# Besides the command path: where pyenv and uv keep the versions that are not in use.
ELSEWHERE = (".pyenv/versions/{}*/bin/python{}", ".local/share/uv/python/cpython-{}*/bin/python{}")
TESTS = ("core", "aio", "replay/test_local.py", "durable/test_semantics.py")
NEEDED_BY_TESTS = (
    *("pytest", "pytest-xdist", "hypothesis", "setuptools"),
    *("numpy", "pyarrow", "rich", "apsw", "uvloop"),
)
PAGES = ("tests/test_readme.py", "-k", "on_the_page_runs")
EXTRAS = "spark,cli,kafka,metrics,service,client"  # those that the pages' code and tests import
NEEDED_BY_PAGES = ("opentelemetry-sdk",)  # docs/metrics.md tells its reader to install it

PROGRAM = """
import threading
from sojourn import DelayedOperation, ManualClock, Purgatory, Timer, TimerTask

class Greet(TimerTask):
    def run(self):
        done.set()

done = threading.Event()
with Timer() as timer:
    timer.add(Greet(5))
    assert done.wait(60), "the timer's task has not run"

class Wait(DelayedOperation):
    def try_complete(self):
        return is_there and self.force_complete()

    def on_complete(self):
        ends.append("completed")

    def on_expiration(self):
        ends.append("expired")

ends, is_there, clock = [], False, ManualClock()
with Purgatory("tried", clock=clock) as purgatory:
    for _ in range(2):
        assert not purgatory.try_complete_else_watch(Wait(1_000), ["key"])
    clock.advance(1_000)
    assert not purgatory.try_complete_else_watch(Wait(1_000), ["key"])
    is_there = True
    assert purgatory.check_and_complete("key") == 1
assert ends == ["completed", "expired"] * 2 + ["completed"], ends
"""


class Build(NamedTuple):
    """A wheel, and the Python that it is tried with."""

    python: str
    wheel: Path

    @property
    def is_interpreted(self) -> bool:
        return self.wheel.name.endswith("-py3-none-any.whl")


def main() -> int:
    options = parse()
    pythons = [python_at(path) for path in options.python or ()] or find_pythons()
    if not pythons:
        print(f"no Python of {', '.join(VERSIONS)} was found; give one with --python")
        return 2
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="sojourn-wheels-") as name:
        folder = Path(name)
        if not options.no_build:
            shutil.copy2(build(pythons[0], ROOT, folder / "sdist", "sdist"), options.out)
        source = unpack(options.out, folder / "source")
        failed = 0
        for number, (python, is_pure) in enumerate(
            [*((python, False) for python in pythons), (pythons[0], True)]
        ):
            pages = options.pages and not is_pure and python in (pythons[0], pythons[-1])
            if not options.no_build:
                switch = "SOJOURN_PURE" if is_pure else "SOJOURN_REQUIRE_COMPILED"
                wheel = build(python, source, folder / f"wheel-{number}", "wheel", {switch: "1"})
                shutil.copy2(wheel, options.out)
            wheel = wheel_of(python, is_pure, options.out)
            failed += not tried(Build(python, wheel), source, folder / f"{number}", pages)
    return 1 if failed else 0


# What is there.


def find_pythons() -> list[str]:
    """One Python of each version: on the command path, or kept by pyenv or uv."""
    pythons = []
    for version in VERSIONS:
        candidates = [shutil.which(f"python{version}")]
        for pattern in ELSEWHERE:
            candidates += map(str, sorted(Path.home().glob(pattern.format(version, version))))
        runnable = [path for path in candidates if path and version_of(path) == version]
        pythons += runnable[:1]
    return pythons


def python_at(path: str) -> str:
    if not version_of(path):
        raise SystemExit(f"--python {path} does not run")
    return path


def version_of(python: str) -> str:
    """Such as 3.12; empty if it does not run, as pyenv's stand-ins for versions not in use."""
    try:
        done = subprocess.run([python, "--version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.split()[-1].rpartition(".")[0]


def unpack(out: Path, folder: Path) -> Path:
    """Unpack the sdist of this version; return the folder of its sources."""
    (sdist,) = out.glob(f"sojourn-{version()}.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    (source,) = folder.iterdir()
    return source


def wheel_of(python: str, is_pure: bool, out: Path) -> Path:
    tag = "py3-none-any" if is_pure else f"cp{version_of(python).replace('.', '')}-*"
    wheels = list(out.glob(f"sojourn-{version()}-{tag}.whl"))
    if len(wheels) != 1:
        raise SystemExit(
            f"{out} has {len(wheels)} wheels {tag}, not one; remove those that are old"
        )
    return wheels[0]


def version() -> str:
    text = (ROOT / "src/sojourn/__init__.py").read_text(encoding="utf-8")
    (found,) = re.findall(r'^__version__ = "(.+)"$', text, re.MULTILINE)
    return str(found)


# Build and try.


def build(
    python: str, source: Path, out: Path, what: str, environment: dict[str, str] | None = None
) -> Path:
    """Build it in isolation; return the file."""
    bin_ = new_environment(python, out / "build")
    run(bin_ / "python", "-m", "pip", "install", "--quiet", "build")
    arguments = [f"--{what}", "--outdir", str(out / "dist"), str(source)]
    run(bin_ / "python", "-m", "build", *arguments, environment=environment)
    (file,) = (out / "dist").iterdir()
    print(f"built {file.name} ({file.stat().st_size // 1024} kB)", flush=True)
    return file


def tried(built: Build, source: Path, place: Path, pages: bool) -> bool:
    """Say whether it works where there is nothing else, and passes the tests beside it."""
    check_files(built, source)
    told = check_alone(built, place / "alone")
    bin_ = new_environment(built.python, place / "with-tests")
    wanted = [f"{built.wheel}[{EXTRAS}]", *NEEDED_BY_PAGES] if pages else [str(built.wheel)]
    run(bin_ / "python", "-m", "pip", "install", "--quiet", *wanted, *NEEDED_BY_TESTS)
    here = place / "here"  # no `src` here, so that only what is installed can be imported
    for folder in ("tests", "docs"):
        shutil.copytree(source / folder, here / folder)
    for file in ("pyproject.toml", "README.md"):
        shutil.copy2(source / file, here)
    print(told, flush=True)
    is_good = passed(bin_, here, *(f"tests/{name}" for name in TESTS))
    if pages:
        is_good &= passed(bin_, here, *PAGES)
    return is_good


def passed(bin_: Path, here: Path, *arguments: str) -> bool:
    """Say whether these tests pass, and print how many did."""
    done = subprocess.run(
        [bin_ / "python", "-m", "pytest", "-q", "-n", "auto", "-p", "no:cacheprovider", *arguments],
        cwd=here,
        capture_output=True,
        text=True,
        check=False,
    )
    summary = (re.findall(r"^.*(?:passed|failed|error).*$", done.stdout, re.MULTILINE) or ["?"])[-1]
    print(f"    {' '.join(arguments)}: {summary}", flush=True)
    if done.returncode:
        print(done.stdout[-4000:], done.stderr[-2000:], sep="\n")
    return done.returncode == 0


def check_files(built: Build, source: Path) -> None:
    """The wheel has the package's files and, if it is compiled, each .pxd's module; no others."""
    package = {
        path.relative_to(source / "src").as_posix()
        for path in (source / "src/sojourn").rglob("*")
        if path.is_file() and path.suffix not in (".so", ".pyc")
    }
    typed = {name.removesuffix(".pxd") for name in package if name.endswith(".pxd")}
    with zipfile.ZipFile(built.wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    compiled = {name for name in names if name.endswith((".so", ".pyd"))}
    if names - compiled != package:
        raise SystemExit(f"{built.wheel.name} differs from its sources: {names ^ package}")
    modules = {name.partition(".")[0] for name in compiled}
    wanted = set() if built.is_interpreted else {m for m in typed if f"{m}.py" in package}
    if modules != wanted:
        raise SystemExit(f"{built.wheel.name} has other compiled modules: {modules ^ wanted}")


def check_alone(built: Build, place: Path) -> str:
    """Install it and nothing else; return what it says of itself."""
    bin_ = new_environment(built.python, place)
    run(bin_ / "python", "-m", "pip", "install", "--quiet", "--no-deps", built.wheel)
    told = run(bin_ / "sojourn", "--version").strip()
    build_name = "interpreted" if built.is_interpreted else "compiled"
    if not told.startswith(f"sojourn {version()}, {build_name}, Python {version_of(built.python)}"):
        raise SystemExit(f"{built.wheel.name} says of itself: {told}")
    run(bin_ / "python", "-I", "-c", PROGRAM)
    return told


def new_environment(python: str, place: Path) -> Path:
    run(python, "-m", "venv", str(place))
    return place / ("Scripts" if sys.platform == "win32" else "bin")


def run(*command: str | Path, environment: dict[str, str] | None = None) -> str:
    """What the command prints; or the end of this program, with all that it said."""
    done = subprocess.run(
        command,
        env={**os.environ, **(environment or {})},
        cwd=ROOT.parent,  # from where neither `src` nor `tests` can be imported
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))} failed\n{done.stdout}\n{done.stderr}")
    return done.stdout


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--python", action="append", help="build for this one; may be repeated")
    parser.add_argument(
        "--no-pages", dest="pages", action="store_false", help="run no code of README.md and docs/"
    )
    parser.add_argument("--no-build", action="store_true", help="try what is in --out")
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
