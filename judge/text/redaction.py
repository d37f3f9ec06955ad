r"""Redact secrets and common personal data in a text, before it leaves the process.

A text is normalised first: invisible characters and combining marks are ignored, and characters of other
widths and look-alikes from other alphabets count as plain ones. It is searched a second time with escapes
(`&#46;`, `%40`, `\u0040`, `[.]`) decoded. Only data with a recognisable form is found: no street addresses or
national ids, and names only with the optional engine. A replacement is a word in brackets such as `[email]`
and contains nothing of the data. Adjacent data may only be found when the redacted text is redacted again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Literal, get_args

from judge.text.index import neutralize
from judge.text.sensitive import accounts, addresses, credentials, phones
from judge.text.sensitive.seen import Seen

Kind = Literal["secrets", "emails", "ibans", "cards", "ip", "phones", "names"]
KINDS: tuple[Kind, ...] = tuple(kind for kind in get_args(Kind) if kind != "names")
"""Kinds of data; `names` needs an engine (`judge.verdict.names`), the others have a recognisable form."""

Find = Callable[[str], Iterator[tuple[int, int]]]
"""Yields the spans of data, start and end (exclusive), in order, in a text of plain characters."""

# In search order: longer forms before forms that may be part of them.
_STEPS: Mapping[Kind, tuple[str, Find]] = {
    "secrets": ("[secret]", credentials.find),
    "emails": ("[email]", addresses.find_emails),
    "ibans": ("[iban]", accounts.find_ibans),
    "cards": ("[card]", accounts.find_cards),
    "phones": ("[phone]", phones.find),
    "ip": ("[ip]", addresses.find_ip),
}
_LOOKS = 3
# Text in a right-to-left override, up to its end or the end of the line.
_REVERSED = re.compile("\u202e([^\u202c\u2069\n]*+)")


class Redactor:
    """Redacts data of some kinds.

    Args:
        kinds: The kinds to redact; if empty, texts are unchanged.
        find_names: Finds names of people, for the kind `names`.

    Raises:
        ValueError: `names` is given without `find_names`.
    """

    def __init__(self, kinds: Iterable[Kind], *, find_names: Find | None = None) -> None:
        wanted = set(kinds)
        self.kinds: tuple[Kind, ...] = tuple(kind for kind in get_args(Kind) if kind in wanted)
        self._steps = [step for kind, step in _STEPS.items() if kind in wanted]
        self._find_names = find_names if "names" in wanted else None
        if "names" in wanted and find_names is None:
            raise ValueError("names needs an engine that finds them; give find_names or leave names out")

    def redact(self, text: str) -> str:
        """Return the redacted text; unless `kinds` is empty, without invisible characters."""
        if not self.kinds:
            return text
        if "\u202e" in text:
            text = _REVERSED.sub(lambda match: match[1][::-1], text)
        text = neutralize(text)
        views = _views(text)
        for _ in range(_LOOKS):
            before = text
            for word, find in self._steps:
                for place in (0, 1):
                    if place < len(views):
                        seen = views[place]
                        replaced = _replaced(text, (seen.place(*at) for at in find(seen.text)), word)
                        if replaced is not text:
                            text, views = replaced, _views(replaced)
            if text == before:
                break
        # Last, once, and on the original letters, because the engine needs real language.
        return text if self._find_names is None else _replaced(text, self._find_names(text), "[name]")


def _views(text: str) -> list[Seen]:
    """Return the text with escapes decoded, and undecoded if that differs."""
    decoded = Seen(text, decoded=True)
    return [decoded, Seen(text)] if decoded.is_decoded else [decoded]


def _replaced(text: str, places: Iterable[tuple[int, int]], word: str) -> str:
    parts: list[str] = []
    end = 0
    for start, stop in places:
        parts += (text[end:start], word)
        end = stop
    return "".join((*parts, text[end:])) if parts else text
