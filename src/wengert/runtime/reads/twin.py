"""Twins: a function's code with its reads and stores made visible, built from its syntax tree.

In: a code object whose source can be found. Out: a code object for the same function (arguments, free variables, file
and lines are the same) in which attributes, items, iteration, truth, operands, calls and stores go through the hooks of
`hooks`. What a twin computes is what the function computes.

A library may call a user's function that has no twin, for example one stored in a C object. A profile hook finds
those (`covering`); it is set when a recording is repeated for the first time, before any recording is used twice.
"""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from types import CodeType, TracebackType
from typing import Any, NamedTuple
from weakref import ref

from wengert.core.code import bare, compiled, fits, is_library, source_of, wrapped
from wengert.runtime.reads.syntax import LessCommon, lazily, names_stored

_LOOK_AROUND = frozenset({"super", "locals", "vars", "dir"})  # builtins that look at the frame that calls them
_MARK = "\0wengert:"  # a constant that stands for a hook until the code is compiled
_MEANT = (
    ast.Name,
    ast.Attribute,
    ast.Subscript,
    ast.Call,
    ast.IfExp,
    ast.BoolOp,
    ast.NamedExpr,
)  # what may give an object from outside


class Twin(NamedTuple):
    """The code of a twin, and the names that the function and nested functions load, except frozen ones."""

    code: CodeType
    names: frozenset[str]


_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_twins: dict[int, tuple[ref[CodeType], Twin | None]] = {}
_made: dict[int, CodeType] = {}  # by identity: the code of all twins, and of functions inside them


_hooks: dict[str, Callable[..., Any]] = {}


def use(hooks: Mapping[str, Callable[..., Any]]) -> None:
    """Make twins call these hooks."""
    _hooks.update(hooks)


def is_twin(code: CodeType) -> bool:
    """Whether a code object belongs to a twin, or to a function made by one."""
    return id(code) in _made


def twin_of(code: CodeType) -> Twin | None:
    """The twin of a code object; None if there is no matching source."""
    known = _twins.get(id(code))
    if known is not None and known[0]() is code:
        return known[1]
    try:
        twin = _build(code)
    except (SyntaxError, ValueError, RecursionError):
        twin = None
    _twins[id(code)] = ref(code, partial(_drop, id(code))), twin
    return twin


@contextmanager
def covering(uncovered: dict[CodeType, dict[str, Any]]) -> Iterator[None]:
    """A context that records the user's code that runs without a twin, with its globals."""
    known: dict[int, CodeType] = {}

    def look(frame: Any, event: str, argument: Any) -> None:
        code = frame.f_code
        if event == "call" and id(code) not in known:
            known[id(code)] = code
            if not is_library(code) and not is_twin(code) and not code.co_name.startswith("<module"):
                uncovered[code] = frame.f_globals

    sys.setprofile(look)
    try:
        yield
    finally:
        sys.setprofile(None)


def without_hooks(traceback: TracebackType | None) -> TracebackType | None:
    """The frames of an error without those of this package, which lie between the user's."""
    kept = []
    while traceback is not None:
        if not traceback.tb_frame.f_code.co_filename.startswith(_HERE):
            kept.append(traceback)
        traceback = traceback.tb_next
    for one, following in zip(kept, [*kept[1:], None]):
        one.tb_next = following
    return kept[0] if kept else None


def _drop(known: int, _: Any = None) -> None:
    """Drop the twin of a function that was collected."""
    _, twin = _twins.pop(known, (None, None))
    todo = [] if twin is None else [twin.code]
    for code in todo:  # which grows
        _made.pop(id(code), None)
        todo += [constant for constant in code.co_consts if isinstance(constant, CodeType)]


def _build(code: CodeType) -> Twin | None:
    found = source_of(code)
    if found is None:
        return None
    node, class_name = found
    plain = compiled(wrapped(bare(node), code, class_name), code)
    if plain is None or not fits(plain, code):
        return None
    transformer = _Logging(class_name)
    made = compiled(wrapped(transformer.function(bare(node)), code, class_name), code)
    if made is None or made.co_freevars != code.co_freevars:
        return None
    return Twin(_with_hooks(made.replace(co_qualname=code.co_qualname)), frozenset(transformer.names))


def _with_hooks(code: CodeType) -> CodeType:
    """The code with hooks in place of the constants that stand for them, down to the functions inside."""

    def replaced(constant: Any) -> Any:
        if isinstance(constant, CodeType):
            return _with_hooks(constant)
        if isinstance(constant, str) and constant.startswith(_MARK):
            return _hooks[constant[len(_MARK) :]]
        return constant

    made = code.replace(co_consts=tuple(replaced(constant) for constant in code.co_consts))
    _made[id(made)] = made
    return made


# --- the syntax tree of a twin --------------------------------------------------------------------------------------


def _hook(name: str, *arguments: ast.expr, at: ast.AST) -> ast.expr:
    """A call of a hook, at the place of what it stands for."""
    call = ast.Call(ast.Constant(_MARK + name), list(arguments), [])
    for node in ast.walk(call):
        if not hasattr(node, "lineno"):
            ast.copy_location(node, at)
    return call


class _Logging(LessCommon):
    """Puts hooks around what reads and stores."""

    hook = staticmethod(_hook)

    def __init__(self, class_name: str) -> None:
        self.class_name = class_name
        self.names: set[str] = set()
        self.globals: set[str] = set()
        self.nonlocals: set[str] = set()
        self.is_frozen = False

    def function(self, node: Any) -> Any:
        """A function with hooks in its body; its defaults and decorators belong to the enclosing code."""
        if isinstance(node, ast.Lambda):
            body: Any = self.visit(node.body)
            return ast.copy_location(ast.Lambda(node.args, body), node)
        made = ast.copy_location(type(node)(**{**dict(ast.iter_fields(node))}), node)
        made.body = self._statements(node.body)
        return made

    def _statements(self, body: Iterable[ast.stmt]) -> list[ast.stmt]:
        return list(self._flat(self.visit(one) for one in body))

    def _flat(self, found: Iterable[Any]) -> Iterator[Any]:
        for one in found:
            if isinstance(one, list):
                yield from one
            elif one is not None:
                yield one

    def generic_visit(self, node: ast.AST) -> Any:
        """A copy of a node with its parts visited: trees are shared among twins."""
        fields: dict[str, Any] = {}
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "type_params", "type_comment"):
                fields[name] = value
            elif isinstance(value, list):
                fields[name] = list(self._flat(self.visit(x) if isinstance(x, ast.AST) else x for x in value))
                if name in ("kw_defaults", "keys"):  # which hold None in some places
                    fields[name] = [self.visit(x) if isinstance(x, ast.AST) else x for x in value]
            else:
                fields[name] = self.visit(value) if isinstance(value, ast.AST) else value
        made = ast.copy_location(type(node)(**fields), node) if hasattr(node, "lineno") else type(node)(**fields)
        return [*self._stores(node), made] if isinstance(node, ast.stmt) else made

    def _stores(self, node: ast.stmt) -> Iterator[ast.stmt]:
        """Calls of hooks before a statement that stores names of other scopes."""
        for name in dict.fromkeys(names_stored(node)) if self.globals or self.nonlocals else ():
            if name in self.globals or name in self.nonlocals:
                hook = "global_store" if name in self.globals else "nonlocal_store"
                yield ast.copy_location(ast.Expr(_hook(hook, ast.Constant(name), at=node)), node)

    def _inside(self, node: Any) -> Any:
        """A nested function, which handles names of other scopes itself."""
        outer, self.globals, self.nonlocals = (self.globals, self.nonlocals), set(), set()
        try:
            made = self.generic_visit(node)
        finally:
            self.globals, self.nonlocals = outer
        return made if isinstance(node, ast.Lambda) else [*self._stores(node), made[-1]]

    visit_FunctionDef = visit_AsyncFunctionDef = visit_Lambda = _inside

    def visit_Name(self, node: ast.Name) -> Any:
        if isinstance(node.ctx, ast.Load) and not self.is_frozen:
            self.names.add(node.id)
        return node

    def _mangled(self, name: str) -> str:
        if not self.class_name.strip("_") or not name.startswith("__") or name.endswith("__"):
            return name
        return f"_{self.class_name.lstrip('_')}{name}"

    # --- reads --------------------------------------------------------------------------------------------------

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        value = self.visit(node.value)
        if isinstance(node.ctx, ast.Load):
            return _hook("attribute", value, ast.Constant(self._mangled(node.attr)), at=node)
        target = _hook("writable", value, ast.Constant("." + node.attr), at=node)
        return ast.copy_location(ast.Attribute(target, node.attr, node.ctx), node)

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        value, key = self.visit(node.value), self.visit(node.slice)
        if isinstance(node.ctx, ast.Load):
            return _hook("item", value, _key(key), at=node)
        target = _hook("writable", value, ast.Constant("[...]"), at=node)
        key = key if isinstance(node.slice, (ast.Constant, ast.Slice)) else _hook("key", _key(key), at=node)
        return ast.copy_location(ast.Subscript(target, key, node.ctx), node)

    def visit_Call(self, node: ast.Call) -> Any:
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        if isinstance(node.func, ast.Name) and name in _LOOK_AROUND and (name == "super" or not node.args):
            return self.generic_visit(node)
        if isinstance(node.func, ast.Name) and name == "globals" and not node.args:
            return _hook("marked", self.generic_visit(node), at=node)
        function = self.visit(node.func)
        if isinstance(node.func, ast.Name) and name in ("eval", "exec"):
            function = _hook("evaluates", function, at=node)
            return ast.copy_location(ast.Call(function, self._all(node.args), self._keywords(node)), node)
        if name == "static" and len(node.args) == 1 and not node.keywords and not isinstance(node.args[0], ast.Starred):
            return _hook("static", function, self._thunk(node.args[0]), at=node)
        return ast.copy_location(
            ast.Call(_constant("call", node), [function, *self._all(node.args)], self._keywords(node)), node
        )

    def _thunk(self, value: ast.expr) -> ast.expr:
        outer, self.is_frozen = self.is_frozen, True
        try:
            return lazily(self.visit(value))
        finally:
            self.is_frozen = outer

    def _all(self, values: list[ast.expr]) -> list[ast.expr]:
        return [self.visit(value) for value in values]

    def _keywords(self, node: ast.Call) -> list[ast.keyword]:
        made = []
        for one in node.keywords:
            value = self.visit(one.value)
            made.append(ast.keyword(one.arg, _hook("used", value, at=one.value) if one.arg is None else value))
        return [ast.copy_location(new, old) for new, old in zip(made, node.keywords)]

    def visit_Starred(self, node: ast.Starred) -> Any:
        if not isinstance(node.ctx, ast.Load):
            return self.generic_visit(node)
        return ast.copy_location(ast.Starred(_hook("iterated", self.visit(node.value), at=node), node.ctx), node)

    def _used(self, node: ast.expr, hook: str = "used") -> Any:
        """An operand, whose contents may count."""
        made = self.visit(node)
        return _hook(hook, made, at=node) if isinstance(node, _MEANT) else made

    def _binary(self, op: ast.AST, left: ast.expr, right: ast.expr, at: ast.AST) -> Any:
        return _hook("binary", ast.Constant(type(op).__name__), self.visit(left), self.visit(right), at=at)

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        return self._binary(node.op, node.left, node.right, node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        return ast.copy_location(ast.UnaryOp(node.op, self._used(node.operand, "shown")), node)

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        return ast.copy_location(ast.BoolOp(node.op, [self._used(value) for value in node.values]), node)

    def visit_Compare(self, node: ast.Compare) -> Any:
        if all(isinstance(op, (ast.Is, ast.IsNot)) for op in node.ops):
            return self.generic_visit(node)
        if len(node.ops) == 1 and isinstance(node.ops[0], (ast.In, ast.NotIn)):
            found = _hook("contains", self.visit(node.left), self.visit(node.comparators[0]), at=node)
            return found if isinstance(node.ops[0], ast.In) else ast.copy_location(ast.UnaryOp(ast.Not(), found), node)
        if len(node.ops) == 1 and not isinstance(node.ops[0], (ast.Is, ast.IsNot)):
            return self._binary(node.ops[0], node.left, node.comparators[0], node)
        sides = [self._used(side, "shown") for side in (node.left, *node.comparators)]
        return ast.copy_location(ast.Compare(sides[0], node.ops, sides[1:]), node)

    def visit_Dict(self, node: ast.Dict) -> Any:
        keys = [key and self.visit(key) for key in node.keys]
        values = [self._used(value) if key is None else self.visit(value) for key, value in zip(node.keys, node.values)]
        return ast.copy_location(ast.Dict(keys, values), node)

    def visit_FormattedValue(self, node: ast.FormattedValue) -> Any:
        specification = node.format_spec and self.visit(node.format_spec)
        return ast.copy_location(
            ast.FormattedValue(self._used(node.value, "written"), node.conversion, specification), node
        )

    def _tested(self, node: Any) -> Any:
        made = self.generic_visit(node)
        statement = made[-1] if isinstance(made, list) else made
        if isinstance(node.test, _MEANT):
            statement.test = _hook("used", statement.test, at=node.test)
        return made

    visit_If = visit_While = visit_IfExp = visit_Assert = _tested

    def visit_comprehension(self, node: ast.comprehension) -> Any:
        made = self.generic_visit(node)
        made.iter = _hook(_way_through(node), made.iter, at=node.iter)
        made.ifs = [self._used(one) for one in node.ifs]
        return made

    def _looping(self, node: Any) -> Any:
        made = self.generic_visit(node)
        statement = made[-1] if isinstance(made, list) else made
        statement.iter = _hook(_way_through(node), statement.iter, at=node.iter)
        return made

    visit_For = visit_AsyncFor = _looping

    def visit_Assign(self, node: ast.Assign) -> Any:
        made = self.generic_visit(node)
        statement = made[-1] if isinstance(made, list) else made
        unpacked = [target for target in node.targets if isinstance(target, (ast.Tuple, ast.List))]
        is_nested = any(isinstance(part, (ast.Tuple, ast.List)) for target in unpacked for part in target.elts)
        if is_nested or (unpacked and isinstance(node.value, _MEANT)):
            statement.value = _hook("shown" if is_nested else "iterated", statement.value, at=node.value)
        if isinstance(node.value, _MEANT) and any(isinstance(target, ast.Subscript) for target in node.targets):
            statement.value = _hook("stored", statement.value, at=node.value)
        return made

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        made = self.generic_visit(node)
        statement = made[-1] if isinstance(made, list) else made
        target = [ast.Name(node.target.id, ast.Load())] if isinstance(node.target, ast.Name) else []
        statement.value = _hook("added", statement.value, *target, at=node.value)
        if isinstance(node.target, ast.Attribute):  # of a tensor it is an update in place
            statement.target.value.args[0] = _hook(
                "updated", statement.target.value.args[0], ast.Constant(self._mangled(node.target.attr)), at=node
            )
        if isinstance(node.target, ast.Name):  # `items += more` changes a list where it is
            name = ast.copy_location(ast.Name(node.target.id, ast.Load()), node)
            check = ast.copy_location(ast.Expr(_hook("grown", name, ast.Constant(node.target.id), at=node)), node)
            return [*(made[:-1] if isinstance(made, list) else []), check, statement]
        return made


def _constant(name: str, at: ast.AST) -> ast.expr:
    return ast.copy_location(ast.Constant(_MARK + name), at)


def _key(key: ast.expr) -> ast.expr:
    """The expression of an index, slices written as calls."""
    if isinstance(key, ast.Slice):
        none = [
            ast.copy_location(ast.Constant(None), key) if part is None else part
            for part in (key.lower, key.upper, key.step)
        ]
        return ast.copy_location(ast.Call(_constant("slice", key), none, []), key)
    if isinstance(key, ast.Tuple):
        return ast.copy_location(ast.Tuple([_key(part) for part in key.elts], key.ctx), key)
    return key


def _way_through(node: Any) -> str:
    """The hook of what a loop goes through: where the loop unpacks the items, these are looked at too."""
    is_plain = isinstance(node.target, ast.Name) or isinstance(node, ast.AsyncFor) or getattr(node, "is_async", False)
    return "iterated" if is_plain else "unpacked"
