"""E-mail, IP and MAC addresses. Pure."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Iterator

from judge.text.sensitive import introduces

_DOT = r"[.·]"
# A local part starts at the start of its run of characters, so each run is read once.
_EMAIL = re.compile(rf"(?<![\w.·+%'-])[\w.·+%'-]++@(?P<domain>[\w-]{{1,63}}(?:{_DOT}[\w-]{{1,63}}){{1,8}})")
_ENCODED = re.compile(r"(?<![\w.+-])[\w.+-]++%40(?P<domain>[\w-]{1,63}(?:\.[\w-]{1,63}){1,8})")
_SPELLED = re.compile(
    r"(?<![\w.+-])[\w.+-]++\s?(?:[\[({<]\s?at\s?[\])}>]|(?<=\w)[\[({]a[\])}]|\sat\s(?!(?:the|an?|this|that|my|our|your|its)\s)(?=[\w-]{1,63}\s(?:dot|punkt)\s)"
    r"|\s@\s(?=[\w-]{1,63}\s\.\s))\s?"
    r"(?P<domain>[\w-]{1,63}(?:\s?(?:\.|[\[({<]\s?(?:dot|punkt)\s?[\])}>]|\s(?:dot|punkt)\s|\s\.\s)\s?[\w-]{1,63}){1,4})",
    re.IGNORECASE,
)
_QUOTED = re.compile(r"\"[^\"\s@]{1,64}\"@(?P<domain>[\w-]{1,63}(?:\.[\w-]{1,63}){1,8})")
_IPV4 = re.compile(
    r"(?<![\w.·])(?<!\d[-,])\d{1,3}([.·]| [.·] )\d{1,3}(?:\1\d{1,3}){2}(?!\w|[.·]\d)", re.ASCII
)
_IPV6 = re.compile(
    r"(?<![\w:.])(?<![\w\])]\[)[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){2,7}(?:(?<=:)\d{1,3}(?:\.\d{1,3}){3})?"
    r"(?:%[\w.-]{1,16})?(?![\w:]|\.\d)",
    re.ASCII,
)
_MAC = re.compile(
    r"(?<![\w:.-])(?:[0-9A-F]{2}([:-])(?:[0-9A-F]{2}\1){4}[0-9A-F]{2}|[0-9A-F]{4}(?:\.[0-9A-F]{4}){2})(?![\w:-]|\.\w)",
    re.ASCII | re.IGNORECASE,
)
# A product of numbers looks like an address with middle dots.
_NO_PRODUCT = re.compile(r"\d{3}|(?<!\d)0")
_SECTION = re.compile(r"[1-9]\d?(?:\.[1-9]\d?){3}")
_TITLE = re.compile(r" {1,3}[A-Z][a-z]")
_NO_LABEL = re.compile(r"\W+")
_SERVICE_USERS = frozenset({"git"})


def find_emails(text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of e-mail addresses, including "ada (at) example (dot) com"."""
    if "@" in text or "%40" in text:
        yield from _merged(text, (_EMAIL, _ENCODED, _QUOTED, _SPELLED))
    else:
        yield from _merged(text, (_SPELLED,))


def _merged(text: str, expressions: tuple[re.Pattern[str], ...]) -> Iterator[tuple[int, int]]:
    yield from _apart(
        match.span()
        for expression in expressions
        for match in expression.finditer(text)
        if _is_domain(match["domain"]) and match[0].partition("@")[0] not in _SERVICE_USERS
    )


def _is_domain(domain: str) -> bool:
    """Return whether the last part is letters, as in top-level domains; "react@18.2.0" is no address."""
    last = _NO_LABEL.split(domain.rstrip("-_"))[-1]
    return len(last) >= 2 and (last.isalpha() or last.lower().startswith("xn--"))


def find_ip(text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of IPv4, IPv6 and MAC addresses."""
    yield from _apart(
        match.span()
        for expression in (_IPV4, _IPV6, _MAC)
        for match in expression.finditer(text)
        if (_is_card(match[0]) if expression is _MAC else _is_address(match[0]))
        and not introduces.a_version(text, match.start())
        and not _is_heading(text, match)
    )


def _apart(places: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield spans in order, without those that start inside another."""
    end = 0
    for start, stop in sorted(places, key=lambda place: (place[0], -place[1])):
        if start >= end:
            yield start, stop
            end = stop


def _is_heading(text: str, match: re.Match[str]) -> bool:
    """Return whether it is a section number with a title: "3.2.4.1 Economic aspects"."""
    if match.start() and text[match.start() - 1] != "\n":
        return False
    return _SECTION.fullmatch(match[0]) is not None and _TITLE.match(text, match.end()) is not None


def _is_card(text: str) -> bool:
    # Groups of only digits are times, dates and figures.
    return any(char.isalpha() for char in text) and any(char.isdecimal() for char in text)


def _is_address(text: str) -> bool:
    # Names in code such as `a::b` look alike, but have no digit.
    if not any(char.isdecimal() for char in text):
        return False
    if "·" in text:
        if not _NO_PRODUCT.search(text):
            return False
        text = text.replace("·", ".")
    # Leading zeros are allowed: 192.000.002.001.
    groups = text.replace(" ", "").split(".")
    text = ".".join([groups[0], *(group.lstrip("0") or "0" for group in groups[1:])])
    try:
        ipaddress.ip_address(text if len(groups) == 1 or ":" in text else text.lstrip("0") or "0")
    except ValueError:
        return False
    return True
