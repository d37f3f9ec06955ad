"""Every compiled expression of the packages, with the ways in which its module uses it."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.places import ROOT

PACKAGES = ("judge", "schemas", "streams")
METHODS = frozenset({"sub", "subn", "search", "findall", "finditer", "split", "match", "fullmatch"})


@dataclass(frozen=True, slots=True)
class Expression:
    module: str
    name: str
    method: str
    pattern: re.Pattern[Any]

    @property
    def function(self) -> Callable[[str], object]:
        """Reads a whole text as the module does."""
        if isinstance(self.pattern.pattern, str):
            return self._function
        return lambda text: self._function(text.encode("utf-8", "surrogatepass"))

    @property
    def _function(self) -> Callable[[Any], object]:
        pattern = self.pattern
        match self.method:
            case "sub" | "subn":
                return lambda text: pattern.sub(text[:0], text)
            case "search" | "findall" | "finditer" | "split":
                # One search may end at the first match; all matches show the cost from any start.
                return lambda text: sum(1 for _ in pattern.finditer(text))
            case _:
                return getattr(pattern, self.method)  # type: ignore[no-any-return]  # a method of a pattern


def modules() -> Iterator[ModuleType]:
    for package in map(importlib.import_module, PACKAGES):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not found.name.endswith("__main__"):
                yield importlib.import_module(found.name)


def modules_with_expressions() -> list[str]:
    files = [file for package in PACKAGES for file in (ROOT / package).rglob("*.py")]
    found = [file for file in files if "re.compile(" in file.read_text("utf-8")]
    names = [".".join(file.relative_to(ROOT).with_suffix("").parts) for file in found]
    return sorted(name.removesuffix(".__init__") for name in names)


@cache
def expressions() -> list[Expression]:
    """All expressions compiled at import, under a name, in a table or as an argument.

    Each with every method that any module calls on its name; one without a name counts as searched.
    """
    texts = {one: Path(str(one.__file__)).read_text("utf-8") for one in modules()}
    # Most modules have no expression, neither of their own nor imported.
    trees = {
        one: ast.parse(text)
        for one, text in texts.items()
        if "re.compile" in text or any(isinstance(value, re.Pattern) for value in vars(one).values())
    }
    uses = {
        (vars(module)[node.value.id], node.attr)
        for module, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.attr in METHODS
        and isinstance(vars(module).get(node.value.id), re.Pattern)
    }
    found = []
    for module, tree in trees.items():
        for number, call in enumerate(compiled_at_import(tree)):
            pattern = eval(compile(ast.Expression(call), "", "eval"), vars(module))  # noqa: S307 - of our own
            name = next((name for name, value in vars(module).items() if value == pattern), f"#{number}")
            methods = sorted(method for used, method in uses if used == pattern) or ["search"]
            found += [Expression(module.__name__, name, method, pattern) for method in methods]
    return found


def compiled_at_import(tree: ast.Module) -> Iterator[ast.Call]:
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "re.compile":
            yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            waiting += ast.iter_child_nodes(node)
