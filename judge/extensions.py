"""Readers, sinks and metrics of installed packages, by entry point; ours are found in the same way."""

from __future__ import annotations

import difflib
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Final, Literal, TypeVar

from judge.errors import ExtensionError

Group = Literal["judgestream.readers", "judgestream.sinks", "judgestream.metrics"]
OURS: Final = "judgestream"
T = TypeVar("T")


def names(group: Group) -> tuple[str, ...]:
    """List what is installed, ours first; imports none of it."""
    return tuple(_installed(group))


@cache
def load(group: Group, name: str, base: type[T]) -> type[T]:
    """Import a subclass of `base` that an installed package provides; ExtensionError if it is not usable."""
    found = _installed(group).get(name, ())
    if not found:
        raise ExtensionError(f"{name} is not in {group}; {_suggest(group, name)}")
    if len(found) > 1:
        packages = " and ".join(_package(one) for one in found)
        raise ExtensionError(f"{name} in {group} is provided by {packages}; uninstall all but one")
    point, package = found[0], _package(found[0])
    try:
        loaded = point.load()
    except Exception as error:  # noqa: BLE001 - foreign code
        why = f"cannot be imported ({type(error).__name__}: {error})"
    else:
        if isinstance(loaded, type) and issubclass(loaded, base):
            return loaded
        why = f"is not a subclass of {base.__module__}.{base.__qualname__}"
    raise ExtensionError(
        f"{name} in {group}, {point.value} of {package}, {why}; update or uninstall {_name(point)}"
    )


@cache
def _installed(group: Group) -> dict[str, tuple[EntryPoint, ...]]:
    found: dict[str, tuple[EntryPoint, ...]] = {}
    for point in sorted(entry_points(group=group), key=lambda one: (_name(one) != OURS, one.name)):
        found[point.name] = (*found.get(point.name, ()), point)
    if not any(_name(one) == OURS for points in found.values() for one in points):
        raise ExtensionError(
            f"{group} lacks judgestream's own: its installation is older than its code; install it again "
            "(from a checkout: pip install --no-deps --editable .)"
        )
    return found


def _suggest(group: Group, name: str) -> str:
    known = names(group)
    close = difflib.get_close_matches(name, known, n=1)
    if close:
        return f"did you mean {close[0]}? If not, install the package that provides it"
    return f"there are {', '.join(known)}; install the package that provides it"


def _name(point: EntryPoint) -> str:
    return "" if point.dist is None else point.dist.name


def _package(point: EntryPoint) -> str:
    return "an unknown package" if point.dist is None else f"{point.dist.name} {point.dist.version}"
