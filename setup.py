"""Compile the modules that have a .pxd beside them; everything else is in pyproject.toml.

SOJOURN_PURE=1 builds without compiling. Where there is no C compiler the build goes on
without it too, unless SOJOURN_REQUIRE_COMPILED=1 asks for an error instead.
"""

import os
from pathlib import Path

from setuptools import Extension, setup

SOURCES = [p for p in sorted(Path("src/sojourn").glob("*.py")) if p.with_suffix(".pxd").exists()]


def extensions() -> list[Extension]:
    if os.environ.get("SOJOURN_PURE", "") not in ("", "0"):
        return []
    from Cython.Build import cythonize

    optional = os.environ.get("SOJOURN_REQUIRE_COMPILED", "") in ("", "0")
    modules = [
        Extension(
            f"sojourn.{source.stem}",
            [str(source)],
            optional=optional,
        )
        for source in SOURCES
    ]
    return cythonize(
        modules,
        build_dir="build/cython",
        compiler_directives={
            "language_level": "3",
            # Types live in the .pxd files: an annotation in a .py speaks to people and mypy.
            "annotation_typing": False,
            "auto_pickle": False,
            "boundscheck": False,
            "wraparound": False,
        },
    )


setup(ext_modules=extensions())
