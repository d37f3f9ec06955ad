"""Reads the settings: one YAML file, overridden by environment variables, validated whole."""

from __future__ import annotations

import copy
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import Any

from pydantic import SecretStr, ValidationError

from judge.text.plain_yaml import PlainYamlError, read_yaml
from streams.errors import SettingsError
from streams.settings.problems import annotation_at, describe, dotted, explain, names_at, suggest
from streams.settings.tree import Settings

ENV_PREFIX = "JUDGESTREAM_"
MAX_PROBLEMS = 50
"""Maximum number of problems reported at once."""
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")
MOST_NEIGHBOURS = 1000
"""Maximum number of file names to search for a similar one."""


def load_settings(path: Path | str | None = None, env: Mapping[str, str] | None = None) -> Settings:
    """Read and validate the settings.

    A variable `JUDGESTREAM_<SECTION>__<FIELD>` (deeper fields with `__` again) overrides the file. Text
    settings take its value as it is; for all others it is read as YAML (hence also JSON).

    Args:
        path: The YAML file; None for defaults and environment alone. Paths in it are relative to its folder.
        env: Environment variables; those of the process by default.

    Returns:
        The settings.

    Raises:
        SettingsError: The settings are invalid; it lists every problem.
    """
    env = os.environ if env is None else env
    file = None if path is None else Path(path)
    document = {} if file is None else _read(file)
    problems = _literal_secrets(document)
    problems += _override(document, env)
    problems += _control_characters(document, "")
    base = {"base": Path.cwd() if file is None else file.parent}
    try:
        settings = Settings.model_validate(document, context=base)
    except ValidationError as error:
        problems += explain(error, Settings)
        rest, further = _rest(document, base, error)
        raise SettingsError(_first(list(dict.fromkeys([*problems, *further]))), rest) from None
    if problems:
        raise SettingsError(problems, Rest(settings, ()))
    return settings


@dataclass(frozen=True, slots=True)
class Rest:
    """The valid part of invalid settings, so that one run also reports the problems of the rest.

    Args:
        settings: The valid settings; defaults replace the removed ones.
        left_out: The last names of the removed settings.
    """

    settings: Settings
    left_out: tuple[str, ...]

    def own(self, problems: Iterable[str]) -> list[str]:
        """Return the problems that do not mention a removed setting."""
        return _unrelated(problems, self.left_out)


def _unrelated(problems: Iterable[str], names: Collection[str]) -> list[str]:
    words = [re.compile(rf"\b{re.escape(name).replace('_', '[_ ]')}\b") for name in names]
    return [line for line in problems if not any(word.search(line) for word in words)]


def _rest(
    document: dict[str, Any], base: Mapping[str, Path], error: ValidationError
) -> tuple[Rest | None, list[str]]:
    """Remove invalid settings, in at most two passes; also return the problems of the second pass."""
    document = copy.deepcopy(document)
    left_out: list[str] = []
    further: list[str] = []
    for _ in range(2):
        for detail in error.errors(include_url=False):
            paths = [sub.split(".") for sub, _ in detail.get("ctx", {}).get("problems", ())] or [[]]
            left_out += [name for path in paths for name in _leave_out(document, [*detail["loc"], *path])]
        try:
            return Rest(Settings.model_validate(document, context=base), tuple(left_out)), further
        except ValidationError as another:
            error = another
            further += _unrelated(explain(another, Settings), left_out)
    return None, further


def _leave_out(document: dict[str, Any], path: Sequence[str | int]) -> list[str]:
    """Remove the deepest named value on a path, and the mappings that this empties; return their names."""
    place: Any = document
    holders: list[tuple[dict[str, Any], str]] = []
    for part in path:
        if isinstance(place, dict) and part in place:
            holders.append((place, str(part)))
            place = place[part]
        elif isinstance(place, list) and isinstance(part, int) and part < len(place):
            place = place[part]
        else:
            break
    names = []
    for holder, name in reversed(holders):
        holder.pop(name, None)
        names.append(name)
        if holder:
            break
    return names or [str(path[-1] if path else "settings")]


def _read(file: Path) -> dict[str, Any]:
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        remedy = _near(file) or "check the path"
        raise SettingsError([f"{file}: cannot be read ({error.strerror}); {remedy}"]) from None
    except UnicodeDecodeError as error:
        raise SettingsError([f"{file}: is not UTF-8 (byte {error.start}); save it as UTF-8"]) from None
    try:
        document = read_yaml(text)
    except PlainYamlError as error:
        raise SettingsError([f"{file}: {error}"]) from None
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise SettingsError(
            [f"{file}: must be a mapping of sections (got {describe(document)}); see config schema"]
        )
    # An empty section means its defaults.
    return {key: {} if value is None else value for key, value in document.items()}


def _first(problems: list[str]) -> list[str]:
    """Return at most `MAX_PROBLEMS` problems and the number of further ones."""
    more = len(problems) - MAX_PROBLEMS
    return (
        problems
        if more <= 0
        else [*problems[:MAX_PROBLEMS], f"and {more} more problems; correct these first"]
    )


def _control_characters(value: Any, path: str) -> Iterator[str]:
    """Yield a problem for each text with a control character or an unpaired surrogate."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _control_characters(inner, f"{path}.{name}" if path else str(name))
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from _control_characters(inner, f"{path}.{place}")
    elif isinstance(value, str) and (found := _CONTROL.search(value)) is not None:
        yield f"{path}: has the control character U+{ord(found[0]):04X}; remove it"


def _near(file: Path) -> str | None:
    """Suggest a settings file next to a missing path: `settings.yml` for `settings.yaml`."""
    try:
        names = [one.name for one in islice(file.parent.iterdir(), MOST_NEIGHBOURS)]
    except OSError:
        return None
    files = [name for name in names if name.endswith((".yaml", ".yml"))]
    close = get_close_matches(file.name, files, n=1, cutoff=0.8)
    return f"did you mean {file.parent / close[0]}?" if close and not file.exists() else None


def _literal_secrets(document: Mapping[str, Any]) -> list[str]:
    problems = []
    for path, value in _places_of_secrets(document):
        name = path[-1]
        if isinstance(value, Mapping) and value.get(name) is not None:
            problems.append(
                f"{dotted(path)}: must not be in the file; use {name}_env (an environment variable's "
                "name) "
                f"or {name}_file, and replace this one: it has been exposed"
            )
            del value[name]  # type: ignore[attr-defined]  # our own copy of the document: plain dicts
    return problems


def _places_of_secrets(document: Mapping[str, Any]) -> list[tuple[list[str | int], Any]]:
    kafka, judge = document.get("kafka"), document.get("judge")
    security = kafka.get("security") if isinstance(kafka, Mapping) else None
    endpoints = judge.get("endpoints") if isinstance(judge, Mapping) else None
    telemetry = document.get("telemetry")
    basic_auth = telemetry.get("basic_auth") if isinstance(telemetry, Mapping) else None
    places: list[tuple[list[str | int], Any]] = [
        (["kafka", "security", "password"], security),
        (["telemetry", "basic_auth", "password"], basic_auth),
    ]
    if isinstance(endpoints, list):
        places += [(["judge", "endpoints", index, "api_key"], one) for index, one in enumerate(endpoints)]
    return places


def _override(document: dict[str, Any], env: Mapping[str, str]) -> list[str]:
    problems = []
    for name in sorted(env):
        if not name.startswith(ENV_PREFIX):
            continue
        parts = name.removeprefix(ENV_PREFIX).lower().split("__")
        annotation = annotation_at(Settings, parts)
        if annotation is None:
            problems.append(f"{name} is not a setting; {_suggest_variable(parts)}")
            continue
        try:
            value = _parse(env[name], annotation)
        except PlainYamlError:
            # The parser's message is omitted: it quotes the value, which may contain a secret.
            problems.append(f"{name}: is not valid YAML or JSON; check brackets and quotes")
            continue
        if not _put(document, parts, value):
            problems.append(
                f"{name}: its parent in the file is not a mapping; correct the file or unset the variable"
            )
    return problems


def _parse(text: str, annotation: Any) -> Any:
    if annotation in {str, SecretStr, Path} or _is_text_choice(annotation):
        return text
    return read_yaml(text)


def _is_text_choice(annotation: Any) -> bool:
    choices = getattr(annotation, "__args__", ())
    return bool(choices) and all(isinstance(choice, str) for choice in choices)


def _put(document: dict[str, Any], parts: list[str], value: Any) -> bool:
    place: Any = document
    for part in parts[:-1]:
        if place.get(part) is None:
            place[part] = {}
        place = place[part]
        if not isinstance(place, dict):
            return False
    place[parts[-1]] = value
    return True


def _suggest_variable(parts: list[str]) -> str:
    known: list[str] = []
    for depth in range(len(parts)):
        names = names_at(Settings, parts[:depth])
        if parts[depth] in names or (depth > 0 and not names):
            known.append(parts[depth])
            continue
        return _as_variable(suggest(parts[depth], names), known, parts[depth + 1 :])
    return "remove it"


def _as_variable(suggestion: str, before: list[str], after: list[str]) -> str:
    """Turn a suggested name into a suggested variable, if there is a suggestion."""
    if not suggestion.startswith("did you mean "):
        return f"under {ENV_PREFIX}{'__'.join(before).upper()} {suggestion}"
    meant = suggestion.removeprefix("did you mean ").removesuffix("?")
    path = [*before, meant, *after]
    while len(path) > len(before) + 1 and annotation_at(Settings, path) is None:
        path.pop()
    return f"did you mean {ENV_PREFIX}{'__'.join(path).upper()}?"
