"""`make wheels`: build what is published, and try each of it in an environment of its own.

    python scripts/wheels.py [--python PATH]… [--pages] [--out dist]

An sdist from this tree; from the sdist, as anybody else would, a wheel for each Python, and one
that is interpreted. Each wheel is installed into a fresh virtual environment, where the sdist's own
tests of the core and of rows run on it, away from the sources. With `--pages` it is installed with
all extras, and the code in README.md and docs runs too.
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
from pathlib import Path

ROOT = Path(__file__).parent.parent
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
EXTRAS = "replay,spark,cli,kafka,metrics,service,client"
TESTS = (
    "core/test_golden.py",
    "core/test_timer.py",
    "core/test_purgatory.py",
    "core/test_progress.py",
    "core/test_deadlines.py",
    "core/test_futures.py",
    "aio/test_aio.py",
    "core/test_collections.py",
    "replay/test_local.py",
    "durable/test_semantics.py",
)


def main() -> int:
    options = parse()
    pythons = options.python or found()
    if not pythons:
        print(f"no Python of {', '.join(VERSIONS)} was found; give one with --python")
        return 2
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="sojourn-wheels-") as name:
        folder = Path(name)
        sdist = built(pythons[0], ROOT, folder / "sdist", "sdist")
        shutil.copy2(sdist, options.out)
        with tarfile.open(sdist) as archive:
            archive.extractall(folder, filter="data")
        (source,) = (path.parent for path in folder.glob("*/PKG-INFO"))
        failed = 0
        for number, python in enumerate([*pythons, pythons[0]]):
            is_pure = number == len(pythons)
            environment = {"SOJOURN_PURE" if is_pure else "SOJOURN_REQUIRE_COMPILED": "1"}
            wheel = built(python, source, folder / f"wheel-{number}", "wheel", environment)
            shutil.copy2(wheel, options.out)
            failed += not tried(python, wheel, source, folder / f"try-{number}", options.pages)
    return 1 if failed else 0


def found() -> list[str]:
    """One Python of each version that is on the path."""
    return [path for version in VERSIONS if (path := shutil.which(f"python{version}"))]


def built(
    python: str, source: Path, out: Path, what: str, environment: dict[str, str] | None = None
) -> Path:
    """Build it in isolation; return the file."""
    place = out / "build"
    bin_ = new_environment(python, place)
    run(bin_ / "python", "-m", "pip", "install", "--quiet", "build")
    arguments = [f"--{what}", "--outdir", str(out / "dist"), str(source)]
    run(bin_ / "python", "-m", "build", *arguments, environment=environment, quiet=True)
    (file,) = (out / "dist").iterdir()
    print(f"built {file.name} ({file.stat().st_size // 1024} kB)")
    return file


def tried(python: str, wheel: Path, source: Path, place: Path, pages: bool) -> bool:
    """Install it where there is nothing else, and run the tests beside it, not in the sources."""
    bin_ = new_environment(python, place)
    run(
        *(bin_ / "python", "-m", "pip", "install", "--quiet"),
        f"{wheel}[{EXTRAS}]" if pages else str(wheel),
        *("pytest", "pytest-xdist", "hypothesis", "numpy", "pyarrow", "rich", "apsw", "uvloop"),
    )
    told = run(bin_ / "sojourn", "--version", capture=True)
    here = place / "here"
    for folder in ("tests", "docs"):
        shutil.copytree(source / folder, here / folder)
    for file in ("pyproject.toml", "README.md"):
        shutil.copy2(source / file, here)
    tests = [f"tests/{name}" for name in (*TESTS, *(["test_readme.py"] if pages else []))]
    done = subprocess.run(
        [bin_ / "python", "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests],
        cwd=here,
        capture_output=True,
        text=True,
        check=False,
    )
    summary = (re.findall(r"^.*(?:passed|failed|error).*$", done.stdout, re.MULTILINE) or ["?"])[-1]
    print(f"{told.strip()}: {summary}")
    if done.returncode:
        print(done.stdout[-4000:], done.stderr[-2000:], sep="\n")
    return done.returncode == 0


def new_environment(python: str, place: Path) -> Path:
    run(python, "-m", "venv", str(place))
    return place / ("Scripts" if sys.platform == "win32" else "bin")


def run(
    *command: str | Path,
    environment: dict[str, str] | None = None,
    capture: bool = False,
    quiet: bool = False,
) -> str:
    done = subprocess.run(
        command,
        env={**os.environ, **(environment or {})},
        capture_output=capture or quiet,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))} failed\n{done.stdout}\n{done.stderr}")
    return done.stdout or ""


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--python", action="append", help="build for this one; may be repeated")
    parser.add_argument("--pages", action="store_true", help="with all extras, run the pages too")
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
