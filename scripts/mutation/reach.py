"""Which tests run which lines of a module, and what each test takes of a processor.

The module is imported with a note in front of each statement in its functions, `__reached__(line)`,
and all its tests run once. That works in every thread, and in processes that a test starts, and
costs little, since nothing outside the module is watched. What runs at import is run by every test.
What another process has run counts for all tests of the file: they often share what it printed.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

NOTE = "__reached__"
_WAITS_S = 0.001  # a test that sleeps for longer waits for somebody


@dataclass(frozen=True)
class Reach:
    """Of each test: its seconds, and the lines it ran; and the lines that ran before any test."""

    seconds: dict[str, float]
    asleep_s: dict[str, float]
    lines: dict[str, frozenset[int]]
    at_import: frozenset[int]

    def tests_of(self, statement: int | None, longest_s: float | None = None) -> dict[str, float]:
        """The tests that run the statement on this line, with their seconds, quickest first.

        Those that wait for a thread or a process come last: where others fail, they may hang.
        """
        everywhere = statement is None or statement in self.at_import
        tests = [
            test
            for test, seconds in self.seconds.items()
            if (everywhere or statement in self.lines[test])
            and (longest_s is None or seconds <= longest_s)
        ]
        tests.sort(key=lambda test: (self.asleep_s[test] > _WAITS_S, self.seconds[test]))
        return {test: self.seconds[test] for test in tests}


def noted(source: str) -> str:
    """Return the source with a note in front of each statement of a function."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            _note_blocks(node)
    return ast.unparse(ast.fix_missing_locations(tree))


def _note_blocks(node: ast.AST) -> None:
    for field, block in ast.iter_fields(node):
        if field in ("body", "orelse", "finalbody") and isinstance(block, list):
            notes: list[ast.stmt] = []
            for statement in block:
                notes += [statement] if _is_text(statement) else [_note(statement), statement]
                if not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                    _note_blocks(statement)
            setattr(node, field, notes)
        elif field in ("handlers", "cases"):
            for part in block:
                _note_blocks(part)


def _is_text(statement: ast.stmt) -> bool:
    """Say whether it may be a docstring, which has to stay the first."""
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _note(statement: ast.stmt) -> ast.stmt:
    call = ast.Call(ast.Name(NOTE, ast.Load()), [ast.Constant(statement.lineno)], [])
    return ast.copy_location(ast.Expr(call), statement)
