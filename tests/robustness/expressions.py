"""Every compiled expression of the packages, with the ways in which its module uses it."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import judge
import schemas
import streams

METHODS = frozenset({"sub", "subn", "search", "findall", "finditer", "split", "match", "fullmatch"})


@dataclass(frozen=True, slots=True)
class Expression:
    """A compiled expression and one way in which it reads a text."""

    module: str
    name: str
    method: str
    pattern: re.Pattern[str]

    @property
    def function(self) -> Callable[[str], object]:
        """Reads a whole text as the module does."""
        pattern = self.pattern
        match self.method:
            case "sub" | "subn":
                return lambda text: pattern.sub("", text)
            case "search" | "findall" | "finditer" | "split":
                # One search may end at the first hit; all hits together show what any beginning costs.
                return lambda text: sum(1 for _ in pattern.finditer(text))
            case _:
                return getattr(pattern, self.method)  # type: ignore[no-any-return]  # a method of a pattern


def modules() -> Iterator[ModuleType]:
    """All modules of the packages."""
    for package in (judge, schemas, streams):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not found.name.endswith("__main__"):
                yield importlib.import_module(found.name)


def expressions() -> list[Expression]:
    """All expressions that stand at the top of a module, each with every method that
    the module calls on it.
    """
    found = []
    for module in modules():
        named = {
            name: value
            for name, value in vars(module).items()
            if isinstance(value, re.Pattern) and isinstance(value.pattern, str)
        }
        if not named:
            continue
        tree = ast.parse(Path(str(module.__file__)).read_text("utf-8"))
        uses = {
            (node.value.id, node.attr)
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.attr in METHODS
        }
        found += [
            Expression(module.__name__, name, method, named[name])
            for name, method in sorted(uses)
            if name in named
        ]
    return found
