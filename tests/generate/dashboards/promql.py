"""A rough parser of the expressions in the dashboards, sufficient for this project's own."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_NAME = re.compile(r"[a-zA-Z_][\w:]*judgestream[\w:]*|judgestream_\w+|\b\w+(?=\{)")
_SELECTOR = re.compile(r"([\w:]+)\{([^}]*)\}")


def names(expr: str) -> set[str]:
    return set(_NAME.findall(_STRING.sub('""', expr)))


def selectors(expr: str) -> Iterator[tuple[str, set[str]]]:
    for name, matchers in _SELECTOR.findall(_STRING.sub('""', expr)):
        yield name, set(re.findall(r"(\w+)\s*[=!]", matchers))


def plain(text: str, values: Mapping[str, str]) -> str:
    for name in sorted(values, key=len, reverse=True):
        text = re.sub(rf"\$\{{{re.escape(name)}\}}|\${re.escape(name)}\b", values[name], text)
    return text
