"""Which build is in use: compiled, or the same sources interpreted.

SOJOURN_PURE=1 runs interpreted even where compiled modules are installed.
SOJOURN_REQUIRE_COMPILED=1 makes it an error to run interpreted. With neither, running interpreted
is logged, at the level INFO.

Imported before every other module of the package, so that the choice holds for all of them.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, ModuleSpec, SourceFileLoader
from pathlib import Path
from types import ModuleType


def _asked(name: str) -> bool:
    return os.environ.get(name, "") not in ("", "0")


class _SourcesOnly:
    """Finds the package's own modules by their sources, passing over the compiled ones."""

    @staticmethod
    def find_spec(
        name: str, path: object = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        own, *folders = name.split(".")[:-1] or [""]
        if own != __package__:
            return None
        folder = Path(__file__).parent.joinpath(*folders)
        return FileFinder(str(folder), (SourceFileLoader, SOURCE_SUFFIXES)).find_spec(name, target)


if _asked("SOJOURN_PURE"):
    if _asked("SOJOURN_REQUIRE_COMPILED"):
        raise ImportError("SOJOURN_PURE and SOJOURN_REQUIRE_COMPILED are both set; unset one")
    sys.meta_path.insert(0, _SourcesOnly)

from sojourn._log import log  # noqa: E402
from sojourn.core import millis  # noqa: E402 - the first module that may be compiled

compiled = not str(millis.__file__).endswith(tuple(SOURCE_SUFFIXES))

if _asked("SOJOURN_REQUIRE_COMPILED") and not compiled:
    raise ImportError(
        "SOJOURN_REQUIRE_COMPILED is set and sojourn is not compiled here; install a C compiler "
        "and build it again: pip install --force-reinstall --no-binary sojourn sojourn"
    )
if not compiled and not _asked("SOJOURN_PURE"):
    log.info(
        "sojourn is not compiled here and runs interpreted: the same, but slower; to have it "
        "compiled install a C compiler and build it again, to have no such line set SOJOURN_PURE=1"
    )
