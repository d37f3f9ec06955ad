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
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import yaml

from tests.helm.chart import CHART, NAMESPACE, load
from tests.toolbox import ended, tool

SUITES: Final = Path(__file__).parent / "suites"
RELEASE: Final = "one"
_PART: Final = re.compile(r'([^.\[\]]+)|\[(\d+)\]|\["([^"]+)"\]')
_PLACES: Final = {"template", "documentIndex"}
Case = Mapping[str, Any]
"""A case or an assertion, as it stands in its file."""


@dataclass(frozen=True, slots=True)
class Rendered:
    texts: Mapping[str, str]
    error: str = ""


def cases() -> Iterator[tuple[str, Case]]:
    for file in sorted(SUITES.glob("*_test.yaml")):
        suite = load(file)
        unknown = suite.keys() - {"suite", "templates", "tests"}
        assert not unknown, f"{file.name}: {unknown}"
        for case in suite["tests"]:
            name = f"{suite['suite']}: {case['it']}"
            unknown = case.keys() - {"it", "set", "values", "template", "documentIndex", "asserts"}
            assert not unknown, f"{name}: {unknown}"
            templates = [case["template"]] if "template" in case else suite["templates"]
            yield name, {**case, "templates": templates}


def nested(flat: Mapping[str, Any]) -> dict[str, Any]:
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
    done = ended(*command, input=values)
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
    files = tuple(Path(file).name for file in case.get("values", ()))
    rendered = _render(files, json.dumps(nested(case.get("set", {}))))
    failed = []
    for assertion in case["asserts"]:
        (word,) = assertion.keys() - _PLACES
        about = assertion[word]
        templates = [assertion["template"]] if "template" in assertion else case["templates"]
        index = assertion.get("documentIndex", case.get("documentIndex"))
        if not holds(word, about, rendered, templates, index):
            told = rendered.error or [rendered.texts.get(name, "") for name in templates]
            failed.append(f"{assertion}; {told}"[:2_000])
    return failed


def at(document: Any, path: str) -> Any:
    """What stands at a path such as `spec.list[0]["a.b"]`; None if nothing does."""
    found = document
    for name, number, quoted in _PART.findall(path):
        try:
            found = found[int(number) if number else (quoted or name)]
        except (KeyError, IndexError, TypeError):
            return None
    return found


def holds(
    word: str,
    about: Mapping[str, Any],
    rendered: Rendered,
    templates: Sequence[str],
    index: int | None = None,
) -> bool:
    """Whether an assertion holds; if Helm refused the values, none but `failedTemplate` does."""
    if word == "failedTemplate":
        return re.search(about["errorPattern"], rendered.error) is not None
    if rendered.error:
        return False
    texts = [rendered.texts.get(name, "") for name in templates]
    if word in {"matchRegexRaw", "notMatchRegexRaw"}:
        found = [re.search(about["pattern"], text) for text in texts]
        return all(found) if word == "matchRegexRaw" else not any(found)
    documents = [one for text in texts for one in yaml.load_all(text, Loader=yaml.CSafeLoader) if one]
    if word == "hasDocuments":
        return bool(len(documents) == about["count"])
    chosen = documents if index is None else documents[index : index + 1]
    return bool(chosen) and all(CHECKS[word](at(one, about["path"]), about) for one in chosen)


def _contains(found: Any, about: Mapping[str, Any]) -> bool:
    if not isinstance(found, list):
        return False
    content = about["content"]
    if about.get("any"):
        return any(isinstance(one, Mapping) and content.items() <= one.items() for one in found)
    return content in found


def _matches(found: Any, about: Mapping[str, Any]) -> bool:
    return isinstance(found, str) and re.search(about["pattern"], found) is not None


CHECKS: Final[Mapping[str, Callable[[Any, Mapping[str, Any]], bool]]] = {
    "equal": lambda found, about: bool(found == about["value"]),
    "isNull": lambda found, _: found is None,
    "lengthEqual": lambda found, about: isinstance(found, list) and len(found) == about["count"],
    "matchRegex": _matches,
    "notMatchRegex": lambda found, about: not _matches(found, about),
    "contains": _contains,
    "notContains": lambda found, about: not _contains(found, about),
}
