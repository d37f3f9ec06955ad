"""The chart's cases: values and assertions about the rendered objects.

The format is that of helm-unittest's suites, as far as the chart uses it: `set` with dotted names,
`template`, `documentIndex`, and the assertions below. An unknown key is an error, so that no case passes
unread.
"""

from __future__ import annotations

import atexit
import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import yaml

from tests.helm.chart import CHART, NAMESPACE, Manifest, load
from tests.toolbox import tool

SUITES: Final = Path(__file__).parent / "suites"
RELEASE: Final = "one"
"""The release name in the cases."""
_PART: Final = re.compile(r'([^.\[\]]+)|\[(\d+)\]|\["([^"]+)"\]')
_PLACES: Final = {"template", "documentIndex"}
_MISSING: Final = object()


@dataclass(frozen=True, slots=True)
class Case:
    """One case."""

    suite: str
    name: str
    templates: tuple[str, ...]
    files: tuple[str, ...]
    values: Mapping[str, Any]
    index: int | None
    assertions: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Rendered:
    """A rendered chart: text by template, or Helm's error."""

    texts: Mapping[str, str]
    error: str = ""

    def documents(self, template: str) -> list[Manifest]:
        return [one for one in yaml.load_all(self.texts.get(template, ""), Loader=yaml.CSafeLoader) if one]


def cases() -> Iterator[Case]:
    """Read all cases of all suites."""
    for file in sorted(SUITES.glob("*_test.yaml")):
        suite = load(file)
        unknown = suite.keys() - {"suite", "templates", "tests"}
        assert not unknown, f"{file.name}: {unknown}"
        for test in suite["tests"]:
            unknown = test.keys() - {"it", "set", "values", "template", "documentIndex", "asserts"}
            assert not unknown, f"{file.name}: {test['it']}: {unknown}"
            own = (test["template"],) if "template" in test else tuple(suite["templates"])
            yield Case(
                suite=file.name.removesuffix("_test.yaml"),
                name=test["it"],
                templates=own,
                files=tuple(Path(file).name for file in test.get("values", ())),
                values=nested(test.get("set", {})),
                index=test.get("documentIndex"),
                assertions=tuple(test["asserts"]),
            )


def nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Turn dotted names into mappings, as `helm --set` does."""
    made: dict[str, Any] = {}
    for name, value in flat.items():
        place = made
        *above, last = name.split(".")
        for part in above:
            place = place.setdefault(part, {})
        place[last] = value
    return made


@lru_cache(maxsize=1)
def _chart() -> Path:
    """Copy the chart and render its notes as an object, because `helm template` omits them."""
    folder = Path(tempfile.mkdtemp(prefix="chart-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    chart = shutil.copytree(CHART, folder / CHART.name)
    notes = (chart / "templates" / "NOTES.txt").read_text(encoding="utf-8")
    (chart / "templates" / "_cases.tpl").write_text(
        f'{{{{- define "cases.notes" -}}}}\n{notes}{{{{- end }}}}\n'
    )
    (chart / "templates" / "cases.yaml").write_text(
        'apiVersion: v1\nkind: Notes\nmetadata: {name: notes}\ntext: {{ include "cases.notes" . | toJson }}\n'
    )
    return chart


@lru_cache(maxsize=128)
def _render(files: tuple[str, ...], values: str) -> Rendered:
    command: list[str | Path] = [tool("helm"), "template", RELEASE, _chart(), "--namespace", NAMESPACE]
    command += [*(f"--values={CHART / 'ci' / file}" for file in files), "--values=-"]
    done = subprocess.run(command, input=values, capture_output=True, text=True, check=False)
    if done.returncode:
        return Rendered({}, done.stderr)
    texts: dict[str, str] = {}
    for part in re.split(r"^---\n", done.stdout, flags=re.MULTILINE):
        source = re.match(r"# Source: [^/]+/(\S+)\n", part)
        if source:
            texts[source[1]] = texts.get(source[1], "") + "---\n" + part
    (notes,) = yaml.safe_load_all(texts.pop("templates/cases.yaml"))
    return Rendered({**texts, "templates/NOTES.txt": notes["text"]})


def broken(case: Case) -> list[str]:
    """The assertions of a case that fail."""
    rendered = _render(case.files, json.dumps(case.values))
    failed = []
    for assertion in case.assertions:
        words = assertion.keys() - _PLACES
        assert len(words) == 1, f"{case.name}: one assertion at a time, got {sorted(words)}"
        (word,) = words
        assert word in CHECKS, f"{case.name}: {word} is not known; known are {', '.join(CHECKS)}"
        template = assertion.get("template")
        templates = case.templates if template is None else (template,)
        why = ""
        try:
            ok = CHECKS[word](
                rendered, templates, assertion.get("documentIndex", case.index), assertion[word]
            )
        except LookupError as error:
            ok, why = False, str(error)
        if not ok:
            shown = rendered.error or _shown(rendered, templates, assertion[word])
            failed.append(f"{dict(assertion)} {why}; {shown}")
    return failed


def _shown(rendered: Rendered, templates: tuple[str, ...], about: Mapping[str, Any]) -> str:
    if "path" not in about:
        return ""
    return f"found {[_at(one, about['path']) for name in templates for one in rendered.documents(name)]!r}"[
        :2_000
    ]


def _chosen(rendered: Rendered, templates: tuple[str, ...], index: int | None) -> list[Manifest]:
    if rendered.error:
        raise LookupError("Helm refused the values")
    documents = [one for name in templates for one in rendered.documents(name)]
    if not documents:
        raise LookupError(f"no object in {', '.join(templates)}")
    return documents if index is None else [documents[index]]


def _at(document: Any, path: str) -> Any:
    found = document
    for name, number, quoted in _PART.findall(path):
        key: Any = int(number) if number else (quoted or name)
        try:
            found = found[key]
        except (KeyError, IndexError, TypeError):
            return _MISSING
    return found


def _of_each(check: Callable[[Any, Mapping[str, Any]], bool]) -> Callable[..., bool]:
    """Turn a check of a value into a check of a path in each selected object."""

    def checked(
        rendered: Rendered, templates: tuple[str, ...], index: int | None, about: Mapping[str, Any]
    ) -> bool:
        return all(check(_at(one, about["path"]), about) for one in _chosen(rendered, templates, index))

    return checked


def _of_text(check: Callable[[str, str], bool]) -> Callable[..., bool]:
    """Turn a check of text into a check of whole templates."""

    def checked(
        rendered: Rendered, templates: tuple[str, ...], _index: int | None, about: Mapping[str, Any]
    ) -> bool:
        if rendered.error:
            raise LookupError("Helm refused the values")
        return all(check(about["pattern"], rendered.texts.get(name, "")) for name in templates)

    return checked


def _contains(found: Any, about: Mapping[str, Any]) -> bool:
    if not isinstance(found, list):
        return False
    content = about["content"]
    if about.get("any"):
        return any(isinstance(one, Mapping) and content.items() <= one.items() for one in found)
    return content in found


CHECKS: Final[Mapping[str, Callable[..., bool]]] = {
    "equal": _of_each(lambda found, about: bool(found == about["value"])),
    "isNull": _of_each(lambda found, _: found is None or found is _MISSING),
    "notExists": _of_each(lambda found, _: found is _MISSING),
    "lengthEqual": _of_each(lambda found, about: isinstance(found, list) and len(found) == about["count"]),
    "matchRegex": _of_each(
        lambda found, about: isinstance(found, str) and re.search(about["pattern"], found) is not None
    ),
    "notMatchRegex": _of_each(
        lambda found, about: not (isinstance(found, str) and re.search(about["pattern"], found))
    ),
    "contains": _of_each(_contains),
    "notContains": _of_each(lambda found, about: found is _MISSING or not _contains(found, about)),
    "isKind": lambda rendered, templates, index, about: all(
        one["kind"] == about["of"] for one in _chosen(rendered, templates, index)
    ),
    "hasDocuments": lambda rendered, templates, index, about: (  # noqa: ARG005 - the form of a check
        not rendered.error and sum(len(rendered.documents(name)) for name in templates) == about["count"]
    ),
    "matchRegexRaw": _of_text(lambda pattern, text: re.search(pattern, text) is not None),
    "notMatchRegexRaw": _of_text(lambda pattern, text: re.search(pattern, text) is None),
    "failedTemplate": lambda rendered, templates, index, about: (  # noqa: ARG005 - the form of a check
        re.search(about["errorPattern"], rendered.error) is not None
    ),
}
"""The checks by assertion name."""
