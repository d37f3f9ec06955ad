"""Reads the settings: one YAML file, overridden by environment variables, validated whole."""

from __future__ import annotations

import copy
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

from pydantic import SecretStr, ValidationError

from judge.text.plain_yaml import PlainYamlError, read_yaml
from streams.errors import SettingsError
from streams.settings.base import Secret, written
from streams.settings.problems import describe, explain, removal, renamed_settings, without_problems
from streams.settings.tree import Settings
from streams.settings.walk import dotted, names_at, section_of, suggest, type_at, walk

ENV_PREFIX = "JUDGESTREAM_"
_SERVICE_LINK = re.compile(
    r"JUDGESTREAM(_[A-Z0-9]+)*_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9]+)*|PORT(_\d+_[A-Z]+(_PROTO|_PORT|_ADDR)?)?)"
)
"""What Kubernetes sets for a Service whose name begins with judgestream."""
MAX_PROBLEMS = 50
MAX_BYTES = 1_048_576
"""Maximum size of the settings file; also ends the reading of a device."""
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")


def load_settings(path: Path | str | None = None, env: Mapping[str, str] | None = None) -> Settings:
    """Read and validate the settings: a YAML file, if any, with `env` (default: the process's) over it.

    A variable `JUDGESTREAM_<SECTION>__<FIELD>` (deeper fields with `__` again) overrides the file. Text
    settings take its value as it is; for all others it is read as YAML (hence also JSON).
    """
    env = os.environ if env is None else env
    file = None if path is None else Path(path)
    document = {} if file is None else read_document(file)
    deprecated: list[str] = []
    problems = [*_override(document, env), *_rename(document, deprecated)]
    for place, _, value in walk(Settings, document):
        if isinstance(value, str) and (character := _CONTROL.search(value)) is not None:
            code = f"U+{ord(character[0]):04X}"
            problems.append(f"{dotted(place)}: has the control character {code}; remove it")
    base = {"base": Path.cwd() if file is None else file.parent, "deprecated": deprecated}
    left_out: tuple[str, ...] = ()
    # What is invalid is removed, twice at most, so that one run also reports the problems of the rest.
    for _ in range(3):
        try:
            settings = Settings.model_validate(document, context=base)
        except ValidationError as error:
            problems += _unrelated(explain(error, Settings), left_out)
            document = copy.deepcopy(document)
            left_out += without_problems(document, error)
            continue
        if problems:
            raise SettingsError(_first(problems), Rest(settings, left_out))
        return settings
    raise SettingsError(_first(problems), None)


@dataclass(frozen=True, slots=True)
class Rest:
    """The valid part of invalid settings: `settings`, and the last names of what was `left_out`."""

    settings: Settings
    left_out: tuple[str, ...]

    def own(self, problems: Iterable[str]) -> list[str]:
        """Return the problems that do not mention a removed setting."""
        return _unrelated(problems, self.left_out)


def _unrelated(problems: Iterable[str], names: Collection[str]) -> list[str]:
    words = [re.compile(rf"\b{re.escape(name).replace('_', '[_ ]')}\b") for name in names]
    return [line for line in problems if not any(word.search(line) for word in words)]


def _first(problems: list[str]) -> list[str]:
    distinct = list(dict.fromkeys(problems))
    more = len(distinct) - MAX_PROBLEMS
    end = [f"and {more} more problems; correct these first"] if more > 0 else []
    return [*distinct[:MAX_PROBLEMS], *end]


def read_document(file: Path, see: str = "config schema") -> dict[str, Any]:
    try:
        with file.open("rb") as handle:
            raw = handle.read(MAX_BYTES + 1)
        if len(raw) > MAX_BYTES:
            raise SettingsError([f"{file}: must be at most {MAX_BYTES} bytes; is it the right file?"])
        document = read_yaml(raw.decode())
    except OSError as error:
        raise SettingsError([f"{file}: cannot be read ({error.strerror}); check the path"]) from None
    except UnicodeDecodeError as error:
        raise SettingsError([f"{file}: is not UTF-8 (byte {error.start}); save it as UTF-8"]) from None
    except PlainYamlError as error:
        raise SettingsError([f"{file}: {error}"]) from None
    if not isinstance(document, dict | None):
        got = describe(document)
        raise SettingsError([f"{file}: must be a mapping of sections (got {got}); see {see}"])
    # An empty section means its defaults.
    return {key: {} if value is None else value for key, value in (document or {}).items()}


def _override(document: dict[str, Any], env: Mapping[str, str]) -> Iterator[str]:
    """Put the values of variables into the document; yield the problems."""
    for name in sorted(
        name for name in env if name.startswith(ENV_PREFIX) and not _SERVICE_LINK.fullmatch(name)
    ):
        parts = _parts(name.removeprefix(ENV_PREFIX).lower())
        declared = type_at(Settings, parts)
        for row in renamed_settings():
            new = row.new_path(parts)
            if new is not None:
                declared = type_at(Settings, _parts("__".join(map(str, new))))
        if declared is None:
            reason = removal(parts)
            yield (
                f"{name} is not a setting; {_suggest_variable(parts)}"
                if reason is None
                else f"{name} was removed: {reason}"
            )
            continue
        try:
            value = _parse(env[name], declared)
        except PlainYamlError:
            # The parser's message is omitted: it quotes the value, which may contain a secret.
            yield f"{name}: is not valid YAML or JSON; check brackets and quotes"
            continue
        if not _put(document, parts, value):
            yield f"{name}: its parent in the file is not a mapping; correct the file or unset the variable"


def _parts(name: str) -> list[str]:
    """Split a variable's name; `password_env` means `password.env`, as in the file."""
    parts = name.split("__")
    stem, _, source = parts[-1].rpartition("_")
    nested = [*parts[:-1], stem, source]
    is_flat = type_at(Settings, parts) is None and section_of(type_at(Settings, nested[:-1])) is Secret
    return nested if is_flat and type_at(Settings, nested) is not None else parts


def _parse(text: str, declared: Any) -> Any:
    """Read a variable's value; texts at the places of secrets become `SecretStr`, which a file has not."""
    if section_of(declared) is Secret and not text.lstrip().startswith("{"):
        return SecretStr(text)
    choices = getattr(declared, "__args__", ())
    if declared in {str, SecretStr, Path} or (choices and all(isinstance(one, str) for one in choices)):
        return text
    value = read_yaml(text)
    for path, kind, inner in list(walk(declared, value)):
        if kind is Secret and path and isinstance(inner, str | int | float):
            _put(value, path, SecretStr(str(inner)))
    return value


def _put(document: Any, path: Sequence[str | int], value: Any) -> bool:
    """Set a value deep in a document; return whether its parents are mappings (or lists that hold it)."""
    for part, inner in pairwise(path):
        if isinstance(document, dict) and document.get(part) is None:
            document[part] = {}
        document = document[part]
        if not isinstance(document, list if isinstance(inner, int) else dict):
            return False
    document[path[-1]] = value
    return True


def _rename(document: dict[str, Any], deprecated: list[str]) -> Iterator[str]:
    """Put what has an old name under its new one, with a warning; yield the problems."""
    for row in renamed_settings():
        given = [path for path, _, _ in walk(Settings, document)]
        for path in given:
            new, parent = row.new_path(path), cast("Any", document)
            if new is None or len(path) > len(row.old.split(".")):
                continue
            for part in path[:-1]:
                parent = parent[part]
            if new in given:
                yield f"{dotted(path)}: is the old name of {dotted(new)}, which is given too; remove it"
            elif path[-1] in parent:  # else it was moved from the same mapping, which stands in two places
                deprecated.append(row.warning(dotted(path), dotted(new)))
                _put(document, new, parent[path[-1]])  # validation reports a parent that is no mapping
            parent.pop(path[-1], None)


def _suggest_variable(parts: list[str]) -> str:
    for depth, part in enumerate(parts):
        names = names_at(Settings, parts[:depth])
        if part in names or (depth > 0 and not names):
            continue
        suggestion = suggest(part, names)
        before = "__".join(parts[:depth]).upper()
        if not suggestion.startswith("did you mean "):
            return f"under {ENV_PREFIX}{before} {suggestion}"
        meant = suggestion.removeprefix("did you mean ").removesuffix("?")
        path = [*parts[:depth], meant, *parts[depth + 1 :]]
        while len(path) > depth + 1 and type_at(Settings, path) is None:
            path.pop()
        return f"did you mean {ENV_PREFIX}{'__'.join(path).upper()}?"
    return "remove it"


def secrets_of(settings: Settings, env: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield each configured secret by its dotted path as in the file; empty if it cannot be read."""
    for path, declared, value in walk(Settings, settings):
        if declared is Secret and value is not None:
            place = written(dotted(path), value)
            try:
                yield place, value.read(dotted(path), env).get_secret_value()
            except SettingsError:
                yield place, ""


def mask(settings: Settings) -> dict[str, Any]:
    """Return the effective settings as plain JSON values, without secrets."""
    return settings.model_dump(mode="json")


def settings_schema() -> dict[str, Any]:
    schema = Settings.model_json_schema()
    for row in renamed_settings():
        *above, name = row.old.split(".")
        section = section_of(type_at(Settings, [0 if part == "*" else part for part in above]))
        node = schema if section in (None, Settings) else schema["$defs"][section.__name__]
        node["properties"][name] = {"deprecated": True, "description": row.warning(row.old, row.new)}
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "judgestream settings"
    return schema
