"""The mutants of a source: small changes, each of which some test should notice.

    compare     a < b         a <= b, a >= b         (== and !=, is and is not, in and not in too)
    constant    3, True       4, 2, False            (defaults of arguments too)
    boolean     a and b       a or b
    not         not a         a
    negate      if a:         if not a:
    arithmetic  a + b         a - b
    remove      a call, an assignment, `del` or `raise` as a statement      pass
    return      return a      return None
    jump        break         continue

Left alone: docstrings, annotations, decorators, texts, `assert`, logging, `__repr__`, `__slots__`,
what a `raise` makes, and what never runs interpreted (`if cython.compiled`, `if TYPE_CHECKING`,
`__dealloc__`).

A mutant is an edit of the source's text, so that it can be shown as a diff.
"""

from __future__ import annotations

import ast
import copy
import difflib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

_COMPARE: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitAnd,
}
_LOGS = ("log", "logger", "logging")
_BINDS = (ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.Attribute, ast.Subscript, ast.Await)


@dataclass(frozen=True)
class Mutant:
    """One edit: `start` up to `end`, in bytes of the source, become `text`."""

    module: str
    line: int
    operator: str
    number: int  # of those with the same operator on the same line
    function: str  # its qualified name; empty at the module's level
    change: str  # the lines before and after, without layout
    start: int
    end: int
    text: str
    statement: int | None  # the line of the statement it is in; None if that runs at import

    @property
    def id(self) -> str:
        """Where it is, in this version of the source."""
        return f"{self.module}:{self.line}:{self.operator}:{self.number}"

    @property
    def name(self) -> str:
        """What it is: the same while the function's own text stays."""
        return f"{self.function or 'module'}: {self.change}"

    def edited(self, source: str) -> str:
        """Return the source with this change."""
        before = source.encode()
        return (before[: self.start] + self.text.encode() + before[self.end :]).decode()

    def diff(self, source: str, path: str) -> str:
        """Return the change as a unified diff."""
        return "".join(
            difflib.unified_diff(
                source.splitlines(keepends=True),
                self.edited(source).splitlines(keepends=True),
                path,
                self.id,
                n=2,
            )
        )


def mutants_of(module: str, source: str) -> list[Mutant]:
    """Return all mutants of the source, in its order, each with a name and an id of its own."""
    mutants = []
    ids: Counter[str] = Counter()
    names: Counter[str] = Counter()
    for mutant in sorted(_Maker(module, source).mutants(), key=lambda m: (m.start, m.end, m.text)):
        place = f"{mutant.line}:{mutant.operator}"
        ids[place] += 1
        names[mutant.name] += 1
        count = names[mutant.name]
        again = f" ({count})" if count > 1 else ""
        mutants.append(replace(mutant, number=ids[place], change=mutant.change + again))
    return mutants


class _Maker:
    """Walks one syntax tree."""

    def __init__(self, module: str, source: str) -> None:
        self._module = module
        self._bytes = source.encode()
        self._lines = [0]  # where each line starts
        for line in self._bytes.splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))
        self._tree = ast.parse(source)
        self._functions: list[str] = []
        self._statement: int | None = None
        self._inside = False  # of a function, where statements may be removed

    def mutants(self) -> Iterator[Mutant]:
        return self._block(self._tree.body)

    # Statements.

    def _block(self, body: list[ast.stmt]) -> Iterator[Mutant]:
        for statement in body:
            outer = self._statement
            if self._inside:
                self._statement = statement.lineno
            yield from self._of_statement(statement)
            self._statement = outer
            if _always_leaves(statement):
                return  # what follows is for the compiler

    def _of_statement(self, node: ast.stmt) -> Iterator[Mutant]:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield from self._of_function(node)
            case ast.ClassDef():
                yield from self._within(node.name, node.body, self._inside)
            case ast.Import() | ast.ImportFrom() | ast.Assert() | ast.Pass():
                pass
            case ast.Global() | ast.Nonlocal():
                pass
            case ast.Raise() | ast.Delete():
                yield self._edit("remove", node, "pass")
            case ast.Expr():
                if not isinstance(node.value, ast.Constant) and not _is_log(node.value):
                    yield self._edit("remove", node, "pass")
                    yield from self._of(node.value, node)
            case ast.Assign() | ast.AnnAssign() | ast.AugAssign():
                yield from self._of_assignment(node)
            case ast.Return():
                if node.value is not None:
                    if not isinstance(node.value, ast.Constant):
                        yield self._edit("return", node, "return None")
                    yield from self._of(node.value, node)
            case ast.Break():
                yield self._edit("jump", node, "continue")
            case ast.Continue():
                yield self._edit("jump", node, "break")
            case ast.If() | ast.While():
                known = _known(node.test)
                if known is None:
                    yield from self._of_condition(node.test, node)
                if known is not False:
                    yield from self._block(node.body)
                if known is not True:
                    yield from self._block(node.orelse)
            case _:
                yield from self._of_parts(node)

    def _of_parts(self, node: ast.AST) -> Iterator[Mutant]:
        for _, part in ast.iter_fields(node):
            for item in part if isinstance(part, list) else [part]:
                if isinstance(item, ast.stmt):
                    yield from self._block([item])
                elif isinstance(item, ast.expr):
                    yield from self._of(item, node)
                elif isinstance(item, ast.comprehension):
                    yield from self._of(item.iter, node)
                    for condition in item.ifs:
                        yield from self._of_condition(condition, node)
                elif isinstance(item, ast.AST):
                    yield from self._of_parts(item)

    def _of_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Mutant]:
        if node.name in ("__repr__", "__dealloc__"):
            return
        for default in [*node.args.defaults, *node.args.kw_defaults]:
            if default is not None:
                yield from self._of(default, node)
        yield from self._within(node.name, node.body, True)

    def _within(self, name: str, body: list[ast.stmt], inside: bool) -> Iterator[Mutant]:
        self._functions.append(name)
        outer, self._inside = self._inside, inside
        yield from self._block(body)
        self._inside = outer
        self._functions.pop()

    def _of_assignment(self, node: ast.Assign | ast.AnnAssign | ast.AugAssign) -> Iterator[Mutant]:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if any(isinstance(t, ast.Name) and t.id.startswith("__") for t in targets):
            return
        if node.value is None:
            return
        if self._inside:
            yield self._edit("remove", node, "pass")
        if isinstance(node, ast.AugAssign) and type(node.op) in _ARITHMETIC:
            other = copy.copy(node)
            other.op = _ARITHMETIC[type(node.op)]()
            yield self._edit("arithmetic", node, ast.unparse(other))
        for target in targets:
            yield from self._of(target, node)
        yield from self._of(node.value, node)

    # Expressions.

    def _of_condition(self, test: ast.expr, parent: ast.AST) -> Iterator[Mutant]:
        if _known(test) is None and not isinstance(test, (ast.Compare, ast.BoolOp, ast.UnaryOp)):
            other = ast.UnaryOp(ast.Not(), test)
            yield self._edit("negate", test, _bound(ast.unparse(other), parent))
        yield from self._of(test, parent)

    def _of(self, node: ast.expr, parent: ast.AST) -> Iterator[Mutant]:
        if _known(node) is not None and not isinstance(node, ast.Constant):
            return
        match node:
            case ast.Constant():
                yield from self._of_constant(node, parent)
                return
            case ast.JoinedStr():
                return
            case ast.Call() if _is_log(node):
                return
            case ast.Compare():
                for n, operator in enumerate(node.ops):
                    for kind in _COMPARE[type(operator)]:
                        other = copy.copy(node)
                        other.ops = [*node.ops[:n], kind(), *node.ops[n + 1 :]]
                        yield self._expression("compare", node, other, parent)
            case ast.BoolOp():
                swapped = copy.copy(node)
                swapped.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
                yield self._expression("boolean", node, swapped, parent)
                for value in node.values:
                    yield from self._of_condition(value, node)
                return
            case ast.UnaryOp(op=ast.Not()):
                yield self._expression("not", node, node.operand, parent)
            case ast.BinOp() if type(node.op) in _ARITHMETIC and not _is_text(node):
                changed = copy.copy(node)
                changed.op = _ARITHMETIC[type(node.op)]()
                yield self._expression("arithmetic", node, changed, parent)
            case ast.IfExp():
                yield from self._of_condition(node.test, node)
                yield from self._of(node.body, node)
                yield from self._of(node.orelse, node)
                return
            case ast.Lambda():
                for default in [*node.args.defaults, *node.args.kw_defaults]:
                    if default is not None:
                        yield from self._of(default, node)
                yield from self._of(node.body, node)
                return
        yield from self._of_parts(node)

    def _of_constant(self, node: ast.Constant, parent: ast.AST) -> Iterator[Mutant]:
        value = node.value
        if isinstance(value, bool):
            yield self._edit("constant", node, repr(not value))
        elif isinstance(value, (int, float)):
            for other in (value + 1, value - 1):
                yield self._edit("constant", node, _bound(repr(other), parent))

    def _expression(
        self, operator: str, node: ast.expr, other: ast.expr, parent: ast.AST
    ) -> Mutant:
        return self._edit(operator, node, _bound(ast.unparse(other), parent))

    def _edit(self, operator: str, node: ast.stmt | ast.expr, text: str) -> Mutant:
        start = self._lines[node.lineno - 1] + node.col_offset
        end = self._lines[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)
        first = self._lines[node.lineno - 1]
        last = self._lines[node.end_lineno or node.lineno]
        before = self._bytes[first:last].decode()
        after = (self._bytes[first:start] + text.encode() + self._bytes[end:last]).decode()
        return Mutant(
            self._module,
            node.lineno,
            operator,
            0,
            ".".join(self._functions),
            f"{_flat(before)} → {_flat(after)}",
            start,
            end,
            text,
            self._statement,
        )


def _known(test: ast.expr) -> bool | None:
    """What a condition is whenever this runs interpreted; None if that depends."""
    match test:
        case ast.Attribute(value=ast.Name(id="cython"), attr="compiled"):
            return False
        case ast.Name(id="TYPE_CHECKING"):
            return False
        case ast.Constant(value=bool(value)):
            return value
        case ast.UnaryOp(op=ast.Not()):
            inner = _known(test.operand)
            return None if inner is None else not inner
        case ast.BoolOp():
            known = [_known(value) for value in test.values]
            decides = isinstance(test.op, ast.Or)
            if decides in known:
                return decides
            return None if None in known else not decides
    return None


def _always_leaves(statement: ast.stmt) -> bool:
    """Say whether, interpreted, nothing after the statement in its block ever runs."""
    if not isinstance(statement, ast.If) or _known(statement.test) is not True:
        return False
    return isinstance(statement.body[-1], (ast.Return, ast.Raise, ast.Continue, ast.Break))


def _is_log(node: ast.expr) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name))):
            return name in _LOGS
    return False


def _is_text(node: ast.BinOp) -> bool:
    """Say whether the operands are texts as far as one can see."""
    return any(
        isinstance(side, ast.JoinedStr)
        or (isinstance(side, ast.Constant) and isinstance(side.value, (str, bytes)))
        for side in (node.left, node.right)
    )


def _bound(text: str, parent: ast.AST) -> str:
    """Put an expression in brackets where its surroundings could tear it apart."""
    return f"({text})" if isinstance(parent, _BINDS) and not text.isalnum() else text


def _flat(text: str) -> str:
    return " ".join(text.split())
