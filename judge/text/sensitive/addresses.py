"""Addresses of people's mailboxes and of machines. Pure."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator

_AT = r"(?:@|%40|&#64;|&commat;)"
_DOT = r"(?:\.|%2[Ee]|&#46;|&period;)"
# A local part begins where its run of characters begins, so that each run is read once.
_EMAIL = re.compile(
    rf"(?<![\w.+%'-])[\w.+%'-]++(?<!%40){_AT}(?P<domain>[\w-]{{1,63}}(?:{_DOT}[\w-]{{1,63}}){{1,8}})"
)
_ENCODED = re.compile(r"(?<![\w.+-])[\w.+-]++%40(?P<domain>[\w-]{1,63}(?:\.[\w-]{1,63}){1,8})")
_SPELLED = re.compile(
    r"(?<![\w.+-])[\w.+-]++\s?(?:[\[({<]\s?at\s?[\])}>]|\sat\s(?=[\w-]{1,63}\s(?:dot|punkt)\s))\s?"
    r"(?P<domain>[\w-]{1,63}(?:\s?(?:\.|[\[({<]\s?(?:dot|punkt)\s?[\])}>]|\s(?:dot|punkt)\s)\s?[\w-]{1,63}){1,4})",
    re.IGNORECASE,
)
_QUOTED = re.compile(r"\"[^\"\s@]{1,64}\"@(?P<domain>[\w-]{1,63}(?:\.[\w-]{1,63}){1,8})")
_IPV4 = re.compile(r"(?<![\w.])(?<!\d[-,])\d{1,3}(?:\.\d{1,3}){3}(?!\w|\.\d)")
_IPV6 = re.compile(
    r"(?<![\w:.])[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){2,7}(?:(?<=:)\d{1,3}(?:\.\d{1,3}){3})?(?![\w:])"
)
_NUMBERED = re.compile(
    r"(?:\bversion|\bv|\brelease|\bsection|\bsec\.?|\bchapter|\bclause|\bparagraph|\boid|\u00a7)\s{0,2}$",
    re.IGNORECASE,
)
_LOOK_BACK = 12


def find_emails(text: str) -> Iterator[tuple[int, int]]:
    """Where addresses of mail stand, also such as "ada (at) example (dot) com"."""
    if "@" in text or "%40" in text or "&" in text:
        yield from _merged(text, (_EMAIL, _ENCODED, _QUOTED, _SPELLED))
    else:
        yield from _merged(text, (_SPELLED,))


def _merged(text: str, expressions: tuple[re.Pattern[str], ...]) -> Iterator[tuple[int, int]]:
    found = sorted(
        match.span()
        for expression in expressions
        for match in expression.finditer(text)
        if _is_domain(match["domain"])
    )
    end = 0
    for start, stop in found:
        if start >= end:
            yield start, stop
            end = stop


def _is_domain(domain: str) -> bool:
    """Whether the last part is letters, as top-level domains are: "react@18.2.0" is none."""
    last = re.split(r"\W+", domain.rstrip("-_"))[-1]
    return len(last) >= 2 and (last.isalpha() or last.lower().startswith("xn--"))


def find_ip(text: str) -> Iterator[tuple[int, int]]:
    """Where addresses of the Internet Protocol stand, of both versions."""
    found = sorted(
        match.span()
        for expression in (_IPV4, _IPV6)
        for match in expression.finditer(text)
        if _is_address(match[0])
        and not _NUMBERED.search(text[max(match.start() - _LOOK_BACK, 0) : match.start()])
    )
    end = 0
    for start, stop in found:
        if start >= end:
            yield start, stop
            end = stop


def _is_address(text: str) -> bool:
    # Names in code such as `a::b` have the form of one, without a digit.
    if not any(char.isdecimal() for char in text):
        return False
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
