"""Syntax trees of twins: the less common syntax in recorded functions.

That is names of other scopes, imports, `with`, `match`, dictionaries, formats; `twin` has the rest.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Any, cast

from wengert.core.code import FUNCTIONS

_GIVEN = ".given"  # a variable that no function of the user's has


class LessCommon(ast.NodeTransformer):
    """Puts hooks around reads and stores: the less common syntax."""

    hook: Callable[..., ast.expr]
    class_name: str
    names: set[str]
    globals: set[str]
    nonlocals: set[str]

    def _visited(self, node: ast.stmt) -> list[Any]:
        """A statement, and before it the hooks of what it stores."""
        return cast(list[Any], self.generic_visit(node))

    def visit_Global(self, node: ast.Global) -> Any:
        self.globals |= set(node.names)
        return node

    def visit_Nonlocal(self, node: ast.Nonlocal) -> Any:
        self.names |= set(node.names)
        self.nonlocals |= set(node.names)
        return node

    def visit_NamedExpr(self, node: ast.NamedExpr) -> Any:
        made, name = cast(ast.NamedExpr, self.generic_visit(node)), node.target.id
        if name in self.globals or name in self.nonlocals:
            which = "global_stored" if name in self.globals else "nonlocal_stored"
            made.value = self.hook(which, ast.Constant(name), made.value, at=node)
        return made

    def visit_Import(self, node: ast.Import) -> Any:
        named = [self.hook("imported", ast.Constant(one.name), ast.Constant(0), at=node) for one in node.names]
        return [*self._visited(node), *(ast.copy_location(ast.Expr(call), node) for call in named)]

    def visit_ImportFrom(self, node: ast.ImportFrom) -> Any:
        names = [ast.Constant(one.name) for one in node.names]
        call = self.hook("imported", ast.Constant(node.module or ""), ast.Constant(node.level), *names, at=node)
        return [*self._visited(node), ast.copy_location(ast.Expr(call), node)]

    def visit_ClassDef(self, node: ast.ClassDef) -> Any:
        outer, self.class_name = self.class_name, node.name
        try:
            return self.generic_visit(node)
        finally:
            self.class_name = outer

    def visit_With(self, node: ast.With) -> Any:
        """A context manager's value is unpacked inside the block, by a separate statement."""
        for i, item in enumerate(node.items):
            at = item.optional_vars
            if isinstance(at, (ast.Tuple, ast.List)):
                rest, body = node.items[i + 1 :], node.body
                inner = [cast(ast.stmt, ast.copy_location(ast.With(rest, body), node))] if rest else body
                given = ast.withitem(item.context_expr, ast.copy_location(ast.Name(_GIVEN, ast.Store()), at))
                made = self._entering(ast.copy_location(ast.With([*node.items[:i], given], inner), node))
                value = self.hook("shown", ast.copy_location(ast.Name(_GIVEN, ast.Load()), at), at=at)
                made[-1].body.insert(0, ast.copy_location(ast.Assign([self.visit(at)], value), at))
                return made
        return self._entering(node)

    def _entering(self, node: ast.With) -> list[Any]:
        made = self._visited(node)
        for item in made[-1].items:
            if item.optional_vars is not None:
                item.context_expr = self.hook("entered", item.context_expr, at=item.context_expr)
        return made

    def visit_YieldFrom(self, node: ast.YieldFrom) -> Any:
        return ast.copy_location(ast.YieldFrom(self.hook("iterated", self.visit(node.value), at=node)), node)

    def visit_Match(self, node: Any) -> Any:
        made = self._visited(node)
        statement = made[-1]
        statement.subject = self.hook("matched", statement.subject, at=node.subject)
        return [*made[:-1], *self._read_by_patterns(node), statement]

    def _read_by_patterns(self, node: Any) -> Iterator[ast.stmt]:
        """What the patterns of a `match` read: nothing but dotted names and literals may stand in them."""
        for pattern in (part for case in node.cases for part in ast.walk(case.pattern)):
            if isinstance(pattern, ast.MatchClass):
                found = self.hook("pattern", lazily(self.visit(pattern.cls)), at=pattern)
                yield ast.copy_location(ast.Expr(found), pattern)
            named = [pattern.value] if isinstance(pattern, ast.MatchValue) else getattr(pattern, "keys", [])
            for value in named:
                if isinstance(value, ast.Attribute):
                    found = self.hook("peeked", lazily(self.visit(value)), at=value)
                    yield ast.copy_location(ast.Expr(found), value)

    def visit_MatchValue(self, node: Any) -> Any:
        return node

    visit_MatchClass = visit_MatchMapping = visit_MatchValue


def lazily(value: ast.expr) -> ast.expr:
    """A function that returns an expression's value."""
    none = ast.arguments([], [], None, [], [], None, [])
    return ast.copy_location(ast.Lambda(none, value), value)


def names_stored(node: ast.AST) -> Iterator[str]:
    """The names that a statement itself stores or deletes."""
    if isinstance(node, (*FUNCTIONS, ast.ClassDef, ast.ExceptHandler)):
        name = getattr(node, "name", None)
        yield from [name] if name else []
        return
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Name) and not isinstance(child.ctx, ast.Load):
            yield child.id
        elif isinstance(child, ast.alias):
            yield child.asname or child.name.partition(".")[0]
        elif isinstance(child, (ast.Tuple, ast.List, ast.Starred, ast.withitem, ast.ExceptHandler)):
            yield from names_stored(child)
