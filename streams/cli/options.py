"""The options that several commands have, and checks of their values."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from difflib import get_close_matches
from typing import TypeVar

from typer import Option

from streams.cli.running import BadUsageError

Name = TypeVar("Name", bound=str)
CONFIG = Option(None, "--config", "-c", metavar="FILE", help="The settings file (YAML).")
REQUIRED_CONFIG = Option(..., "--config", "-c", metavar="FILE", help="The settings file (YAML).")
STORE = Option(None, "--store", "-s", metavar="FILE", help="The store's file; default: store.path.")
_SERVERS = "Brokers; default: those of the settings."
BROKERS = Option(None, "--bootstrap-servers", "-b", metavar="HOST:PORT,...", help=_SERVERS)
JSON = Option(False, "--json", help="Print the result as JSON.")
JSON_LINES = Option(False, "--json", help="Print JSON, one object per line.")
AGENTS = Option("intake,judge,monitor", metavar="NAMES", help="Agents to run, separated by commas.")
_FIELD = "The name (or JMESPath) of a field in FILE, as in question=prompt; repeatable."
MAP = Option(None, "--map", metavar="FIELD=NAME", help=_FIELD)
RATE = Option(
    None, "--rate", "-r", metavar="R", min=0.001, help="At most so many records (or results) per second."
)
YES = Option(False, "--yes", "-y", help="Do not prompt.")
METRIC = Option(..., "--metric", "-m", metavar="NAME", help="The metric.")
ONLY_METRIC = Option(None, "--metric", "-m", metavar="NAME", help="Only this metric.")
ONLY_LABEL = Option(None, metavar="NAME=VALUE", help="Only with this label; repeatable.")


def chosen(option: str, names: Iterable[str], known: tuple[Name, ...]) -> tuple[Name, ...]:
    given = {name.strip() for name in names if name.strip()}
    if not given or given.difference(known):
        got = ", ".join(sorted(given.difference(known))) or "none"
        raise BadUsageError(f"{option} must name one or more of {', '.join(known)}, got {got!r}")
    return tuple(name for name in known if name in given)


def require_one_of(option: str, name: str, known: Collection[str], remedy: str = "") -> None:
    if name in known:
        return
    close = [f"did you mean {one}?" for one in get_close_matches(name, known, n=1)]
    what = f"{option} must be one of {', '.join(known)}, got {name!r}"
    raise BadUsageError("; ".join(filter(None, (what, remedy, *close))))


def field_names(given: Sequence[str]) -> dict[str, str]:
    from streams.settings.intake import mapping_problems

    found: dict[str, str] = {}
    for one in given:
        field, _, name = one.partition("=")
        if not (field and name) or field in found:
            what = "names a field twice" if field in found else "must be FIELD=NAME"
            raise BadUsageError(f"--map {what}, got {one!r}; write --map question=prompt")
        found[field] = name
    for target, what in mapping_problems(dict.fromkeys(found, "name")):
        raise BadUsageError(f"--map: {target} {what}")
    return found
