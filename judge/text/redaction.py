r"""Replacing secrets and common personal data in a text, before anything leaves the process.

A text is normalised first: characters that nobody sees are dropped, marks over characters do not count, and
digits, letters, signs and blanks of other widths and look-alikes of other alphabets count as their plain
ones, so that what a reader reads as an address is one. It is looked through again with what stands for
another character (`&#46;`, `%40`, `\u0040`, `[.]`) read as that one. What is promised is
little: what has the form of such data is replaced. Street addresses and national ids are not found, and names
only by an engine that understands language.

A replacement is a word in brackets such as `[email]`; it holds nothing of what it stands for. Where data
stands without a gap, a second look may find what the first replaced the neighbour of.
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
"""What is known by its form; `names` needs an engine (`judge.verdict.names`)."""

Find = Callable[[str], Iterator[tuple[int, int]]]
"""Gives the places of data, start and end (exclusive), in their order, in a text of plain characters."""

# In the order in which they are looked for: a longer form before what may be part of it.
_STEPS: Mapping[Kind, tuple[str, Find]] = {
    "secrets": ("[secret]", credentials.find),
    "emails": ("[email]", addresses.find_emails),
    "ibans": ("[iban]", accounts.find_ibans),
    "cards": ("[card]", accounts.find_cards),
    "phones": ("[phone]", phones.find),
    "ip": ("[ip]", addresses.find_ip),
}
_LOOKS = 3
# Shown from right to left whatever its letters are, up to the end of the override, or of the line.
_REVERSED = re.compile("\u202e([^\u202c\u2069\n]*+)")


class Redactor:
    """Replaces data of some kinds.

    Args:
        kinds: What to replace; none leaves every text as it is.
        find_names: What finds names of people, for the kind `names`.

    Raises:
        ValueError: Names are to be replaced, and nothing finds them.
    """

    def __init__(self, kinds: Iterable[Kind], *, find_names: Find | None = None) -> None:
        wanted = set(kinds)
        self.kinds: tuple[Kind, ...] = tuple(kind for kind in get_args(Kind) if kind in wanted)
        self._steps = [step for kind, step in _STEPS.items() if kind in wanted]
        self._find_names = find_names if "names" in wanted else None
        if "names" in wanted and find_names is None:
            raise ValueError("names needs an engine that finds them; give find_names or leave names out")

    def redact(self, text: str) -> str:
        """The text with what was found replaced.

        Without what nobody sees, if anything is to be replaced at all.
        """
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
        # Last, once, and in the letters it is written in: the engine knows languages.
        return text if self._find_names is None else _replaced(text, self._find_names(text), "[name]")


def _views(text: str) -> list[Seen]:
    """The text as a reader of what is decoded sees it, and as it is, where that is not the same."""
    decoded = Seen(text, decoded=True)
    return [decoded, Seen(text)] if decoded.is_decoded else [decoded]


def _replaced(text: str, places: Iterable[tuple[int, int]], word: str) -> str:
    parts: list[str] = []
    end = 0
    for start, stop in places:
        parts += (text[end:start], word)
        end = stop
    return "".join((*parts, text[end:])) if parts else text
