"""Check that quotations in a pack's verdict are in their text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from judge.errors import PromptPackError
from judge.metric import Inputs
from judge.metrics.packs.inputs import NAMED, TEXTS, texts_of
from judge.text.normal import quoted
from judge.text.quotations import Quotable

QuotedText = str
"""One of `judge.metrics.packs.inputs.TEXTS`, `fields.<name>` or `labels.<name>`."""

MAX_QUOTATIONS = 300
"""Limit of checked quotations per verdict; further ones count as not found."""
MAX_NAMED = 5
"""Limit of quotations listed in one error."""


def read_quotes(given: Any) -> Mapping[str, QuotedText]:
    """Parse a pack's `quotes`: keys of the verdict, at any depth, with the quoted text's name.

    Raises:
        PromptPackError: It is not a mapping of names to texts.
    """
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not all(
        isinstance(key, str) and isinstance(text, str) and (text in TEXTS or NAMED.fullmatch(text))
        for key, text in given.items()
    ):
        raise PromptPackError(
            "quotes must map keys of the reply to the text that they quote "
            f"({', '.join(TEXTS)}, fields.NAME), got {given!r:.80}"
        )
    return dict(given)


class QuoteCheck:
    """Searches quotations in the texts of one event.

    Args:
        quotes: Keys with the name of the quoted text.
        inputs: The texts.
    """

    def __init__(self, quotes: Mapping[str, QuotedText], inputs: Inputs) -> None:
        self._quotes = quotes
        self._inputs = inputs
        self._texts: dict[QuotedText, list[Quotable]] = {}

    def not_found(self, verdict: Any) -> list[str]:
        """Return messages about the quotations of a verdict that are not in their text.

        Null quotes nothing.
        """
        missing = []
        for number, (key, value) in enumerate(_quotations(verdict, self._quotes)):
            text = self._quotes[key]
            if value is None or (number < MAX_QUOTATIONS and self._stands(value, text)):
                continue
            missing.append(f"{key} {quoted(str(value))} is not in the {text}")
        return missing

    def count(self, verdict: Any) -> int:
        """Return the number of quotations in a verdict."""
        return sum(value is not None for _, value in _quotations(verdict, self._quotes))

    def _stands(self, value: Any, text: QuotedText) -> bool:
        return isinstance(value, str) and any(one.find(value) is not None for one in self._quotable(text))

    def _quotable(self, text: QuotedText) -> list[Quotable]:
        if text not in self._texts:
            self._texts[text] = [Quotable(one) for one in texts_of(self._inputs, text)]
        return self._texts[text]


def _quotations(value: Any, keys: Mapping[str, QuotedText]) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if key in keys:
                yield key, inner
            else:
                yield from _quotations(inner, keys)
    elif isinstance(value, list):
        for inner in value:
            yield from _quotations(inner, keys)
