"""Twins: a function's code with its reads and stores made visible, built from its syntax tree.

In: a code object whose source can be found. Out: a code object for the same function (arguments, free variables, file
and lines are the same) in which attributes, items, iteration, truth, operands, calls and stores go through the hooks of
`log`. What a twin computes is what the function computes.

The function is found in its file by name, line and columns, so that two lambdas on one line are told apart. A source
that no longer fits the code (a file edited since it was imported) gives no twin.
"""

from __future__ import annotations

import ast
import linecache
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from types import CodeType
from typing import Any, NamedTuple
from weakref import ref

_MARK = "\0wengert:"  # a constant that stands for a hook until the code is compiled
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_FLAGS = 0x1FF0000  # the __future__ imports among a code object's flags
_SHAPE = 0x2AC  # among the flags: stars among the parameters, generators, coroutines
_LOOK_AROUND = frozenset({"super", "locals", "vars", "dir"})  # builtins that look at the frame that calls them
_MEANT = (ast.Name, ast.Attribute, ast.Subscript, ast.Call)  # what may give an object from outside


class Twin(NamedTuple):
    """The code of a twin, and the names that the function and those inside it load, but for what is frozen."""

    code: CodeType
    names: frozenset[str]


_twins: dict[int, tuple[ref[CodeType], Twin | None]] = {}
_made: set[int] = set()  # the identities of all twins' code objects, nested ones too; twins are kept for good


def is_twin(code: CodeType) -> bool:
    """Whether a code object is a twin's, or of a function made by one."""
    return id(code) in _made


def twin_of(code: CodeType, hooks: Mapping[str, Callable[..., Any]]) -> Twin | None:
    """The twin of a code object; None where there is no source that fits."""
    known = _twins.get(id(code))
    if known is not None and known[0]() is code:
        return known[1]
    try:
        twin = _build(code, hooks)
    except (SyntaxError, ValueError, RecursionError):
        twin = None
    _twins[id(code)] = ref(code), twin
    return twin


def _build(code: CodeType, hooks: Mapping[str, Callable[..., Any]]) -> Twin | None:
    lines = tuple(linecache.getlines(code.co_filename))
    found = _find(code, _functions(lines)) if lines else None
    if found is None:
        return None
    node, class_name = found
    plain = _compiled(_wrapped(_bare(node), code, class_name), code)
    if plain is None or not _fits(plain, code):
        return None
    transformer = _Logging(class_name)
    made = _compiled(_wrapped(transformer.function(_bare(node)), code, class_name), code)
    if made is None or made.co_freevars != code.co_freevars:
        return None
    return Twin(_with_hooks(made, hooks).replace(co_qualname=code.co_qualname), frozenset(transformer.names))


# --- finding the function -------------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def _functions(lines: tuple[str, ...]) -> dict[tuple[str, int], list[tuple[Any, str]]]:
    """The functions of a source by name and first line, with the class each is defined in."""
    found: dict[tuple[str, int], list[tuple[Any, str]]] = {}

    def walk(node: ast.AST, class_name: str) -> None:
        for child in ast.iter_child_nodes(node):
            inner = child.name if isinstance(child, ast.ClassDef) else class_name
            if isinstance(child, _FUNCTIONS):
                name = "<lambda>" if isinstance(child, ast.Lambda) else child.name
                first = min([child.lineno, *(d.lineno for d in getattr(child, "decorator_list", ()))])
                found.setdefault((name, first), []).append((child, class_name))
            walk(child, inner)

    walk(ast.parse("".join(lines)), "")
    return found


def _find(code: CodeType, functions: dict[tuple[str, int], list[tuple[Any, str]]]) -> tuple[Any, str] | None:
    """The function that a code object was compiled from, and its class."""
    inside = [p for p in code.co_positions() if None not in p and (p[0], p[2]) != (p[1], p[3])]
    best = None
    for node, class_name in functions.get((code.co_name, code.co_firstlineno), []):
        body = node.body if isinstance(node, ast.Lambda) else node
        start, end = (node.lineno, 0), (node.end_lineno, node.end_col_offset)
        if isinstance(node, ast.Lambda):
            start = (body.lineno, body.col_offset)
        positions = [p for p in inside if p[0] >= node.lineno]
        if all(start <= (p[0], p[2]) and (p[1], p[3]) <= end for p in positions):
            if best is None or (node.lineno, node.col_offset) >= (best[0].lineno, best[0].col_offset):
                best = node, class_name
    return best


def _bare(node: Any) -> Any:
    """A copy of a function without decorators, defaults' values and annotations, which its code does not hold."""
    args = node.args

    def plain(one: ast.arg) -> ast.arg:
        return ast.copy_location(ast.arg(one.arg), one)

    bare = ast.arguments(
        posonlyargs=[plain(a) for a in args.posonlyargs],
        args=[plain(a) for a in args.args],
        vararg=args.vararg and plain(args.vararg),
        kwonlyargs=[plain(a) for a in args.kwonlyargs],
        kw_defaults=[None for _ in args.kw_defaults],
        kwarg=args.kwarg and plain(args.kwarg),
        defaults=[],
    )
    if isinstance(node, ast.Lambda):
        return ast.copy_location(ast.Lambda(bare, node.body), node)
    extra = {"type_params": []} if hasattr(node, "type_params") else {}
    return ast.copy_location(type(node)(node.name, bare, node.body, [], None, None, **extra), node)


def _wrapped(node: Any, code: CodeType, class_name: str) -> ast.Module:
    """A module that defines the function where its free variables and its class are, for names that need them."""
    statement = ast.copy_location(ast.Expr(node), node) if isinstance(node, ast.Lambda) else node
    extra = {"type_params": []} if hasattr(ast, "TypeVar") else {}
    if class_name:
        statement = ast.ClassDef(class_name, [], [], [statement], [], **extra)
    free = [name for name in code.co_freevars if name != "__class__" or not class_name]
    parameters = ast.arguments([], [ast.arg(name) for name in free], None, [], [], None, [])
    names = {getattr(statement, "name", ""), getattr(node, "name", "") if not class_name else ""} - {"", *free}
    body = [ast.Global(sorted(names)), statement] if names else [statement]  # what the wrapper defines is no local
    outer = ast.FunctionDef("outer", parameters, body, [], None, None, **extra)
    return ast.fix_missing_locations(ast.Module([outer], []))


def _compiled(module: ast.Module, code: CodeType) -> CodeType | None:
    """The code of the function in a module."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the constants in the place of hooks are called, which looks like a mistake
        whole = compile(module, code.co_filename, "exec", code.co_flags & _FLAGS, dont_inherit=True)
    todo = [whole]
    while todo:
        one = todo.pop(0)
        if one.co_name == code.co_name and one.co_varnames[: code.co_argcount] == code.co_varnames[: code.co_argcount]:
            if one is not whole and one.co_name != "outer":
                return one
        todo += [constant for constant in one.co_consts if isinstance(constant, CodeType)]
    return None


def _fits(plain: CodeType, code: CodeType) -> bool:
    """Whether a code object may have been compiled from this source; a test's assertions are rewritten, others not."""
    same = plain.co_freevars == code.co_freevars and plain.co_flags & _SHAPE == code.co_flags & _SHAPE
    return same and set(plain.co_names) <= set(code.co_names) and _constants(plain) <= _constants(code)


def _constants(code: CodeType) -> set[Any]:
    kinds = (int, float, complex, str, bytes)
    return {(type(c), c) for c in code.co_consts if isinstance(c, kinds)} - {(str, code.co_consts[0])}


def _with_hooks(code: CodeType, hooks: Mapping[str, Callable[..., Any]]) -> CodeType:
    """The code with hooks in the place of the constants that stand for them, down to the functions inside."""

    def replaced(constant: Any) -> Any:
        if isinstance(constant, CodeType):
            return _with_hooks(constant, hooks)
        if isinstance(constant, str) and constant.startswith(_MARK):
            return hooks[constant[len(_MARK) :]]
        return constant

    made = code.replace(co_consts=tuple(replaced(constant) for constant in code.co_consts))
    _made.add(id(made))
    _kept.append(made)
    return made


_kept: list[CodeType] = []  # so that no other code object takes the identity of a twin's


# --- the syntax tree of a twin --------------------------------------------------------------------------------------


def _hook(name: str, *arguments: ast.expr, at: ast.AST) -> ast.expr:
    call = ast.Call(ast.Constant(_MARK + name), list(arguments), [])
    for node in ast.walk(call):
        if not hasattr(node, "lineno"):
            ast.copy_location(node, at)
    return call


class _Logging(ast.NodeTransformer):
    """Puts hooks around what reads and stores."""

    def __init__(self, class_name: str) -> None:
        self.class_name = class_name
        self.names: set[str] = set()
        self.globals: set[str] = set()
        self.nonlocals: set[str] = set()
        self.is_frozen = False

    def function(self, node: Any) -> Any:
        """A function with hooks in its body; defaults and decorators are somebody else's."""
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
        if isinstance(node, ast.stmt) and not isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            return [*self._stores(node), made]
        return made

    def _stores(self, node: ast.stmt) -> Iterator[ast.stmt]:
        """Calls of hooks before a statement that stores names of other scopes."""
        for name in dict.fromkeys(target.id for target in _targets(node)):
            if name in self.globals or name in self.nonlocals:
                hook = "global_store" if name in self.globals else "nonlocal_store"
                yield ast.copy_location(ast.Expr(_hook(hook, ast.Constant(name), at=node)), node)

    def visit_Global(self, node: ast.Global) -> Any:
        self.globals |= set(node.names)
        return node

    def visit_Nonlocal(self, node: ast.Nonlocal) -> Any:
        self.names |= set(node.names)
        self.nonlocals |= set(node.names)
        return node

    def visit_Name(self, node: ast.Name) -> Any:
        if isinstance(node.ctx, ast.Load) and not self.is_frozen:
            self.names.add(node.id)
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> Any:
        outer, self.class_name = self.class_name, node.name
        try:
            return self.generic_visit(node)
        finally:
            self.class_name = outer

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
            none = ast.arguments([], [], None, [], [], None, [])
            return ast.copy_location(ast.Lambda(none, self.visit(value)), value)
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

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        return ast.copy_location(ast.BinOp(self._used(node.left), node.op, self._used(node.right)), node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        return ast.copy_location(ast.UnaryOp(node.op, self._used(node.operand)), node)

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        return ast.copy_location(ast.BoolOp(node.op, [self._used(value) for value in node.values]), node)

    def visit_Compare(self, node: ast.Compare) -> Any:
        if all(isinstance(op, (ast.Is, ast.IsNot)) for op in node.ops):
            return self.generic_visit(node)
        if len(node.ops) == 1 and isinstance(node.ops[0], (ast.In, ast.NotIn)):
            found = _hook("contains", self.visit(node.left), self.visit(node.comparators[0]), at=node)
            return found if isinstance(node.ops[0], ast.In) else ast.copy_location(ast.UnaryOp(ast.Not(), found), node)
        sides = [self._used(side, "shown") for side in (node.left, *node.comparators)]
        return ast.copy_location(ast.Compare(sides[0], node.ops, sides[1:]), node)

    def visit_Dict(self, node: ast.Dict) -> Any:
        keys = [key and self.visit(key) for key in node.keys]
        values = [self._used(value) if key is None else self.visit(value) for key, value in zip(node.keys, node.values)]
        return ast.copy_location(ast.Dict(keys, values), node)

    def visit_FormattedValue(self, node: ast.FormattedValue) -> Any:
        specification = node.format_spec and self.visit(node.format_spec)
        return ast.copy_location(
            ast.FormattedValue(self._used(node.value, "shown"), node.conversion, specification), node
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
        made.iter = _hook("iterated", made.iter, at=node.iter)
        made.ifs = [self._used(one) for one in node.ifs]
        return made

    def _looping(self, node: Any) -> Any:
        made = self.generic_visit(node)
        statement = made[-1] if isinstance(made, list) else made
        statement.iter = _hook("iterated", statement.iter, at=node.iter)
        return made

    visit_For = visit_AsyncFor = _looping

    def visit_YieldFrom(self, node: ast.YieldFrom) -> Any:
        return ast.copy_location(ast.YieldFrom(_hook("iterated", self.visit(node.value), at=node)), node)

    def visit_Assign(self, node: ast.Assign) -> Any:
        made = self.generic_visit(node)
        statement = made[-1] if isinstance(made, list) else made
        unpacked = [target for target in node.targets if isinstance(target, (ast.Tuple, ast.List))]
        if unpacked and isinstance(node.value, _MEANT):
            is_nested = any(isinstance(part, (ast.Tuple, ast.List)) for target in unpacked for part in target.elts)
            statement.value = _hook("shown" if is_nested else "iterated", statement.value, at=node.value)
        return made

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        made = self.generic_visit(node)
        statement = made[-1] if isinstance(made, list) else made
        statement.value = _hook("used", statement.value, at=node.value)
        if isinstance(node.target, ast.Attribute):  # of a tensor it is an update in place
            statement.target.value.args[0] = _hook(
                "updated", statement.target.value.args[0], ast.Constant(self._mangled(node.target.attr)), at=node
            )
        if isinstance(node.target, ast.Name):  # `items += more` changes a list where it is
            name = ast.copy_location(ast.Name(node.target.id, ast.Load()), node)
            check = ast.copy_location(ast.Expr(_hook("grown", name, ast.Constant(node.target.id), at=node)), node)
            return [*(made[:-1] if isinstance(made, list) else []), check, statement]
        return made

    def visit_Match(self, node: Any) -> Any:
        made = self.generic_visit(node)
        statement = made[-1] if isinstance(made, list) else made
        statement.subject = _hook("matched", statement.subject, at=node.subject)
        return made

    def visit_MatchValue(self, node: Any) -> Any:
        return node  # a dotted name or a literal, and nothing else may stand there

    visit_MatchClass = visit_MatchMapping = visit_MatchValue


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


def _targets(node: ast.AST) -> Iterator[ast.Name]:
    """The names that a statement itself stores or deletes."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Name) and not isinstance(child.ctx, ast.Load):
            yield child
        elif isinstance(child, (ast.Tuple, ast.List, ast.Starred, ast.withitem, ast.NamedExpr, ast.Expr)):
            yield from _targets(child)
