r"""Replacing secrets and common personal data in a text, before anything leaves the process.

The patterns are few and our own. The libraries for this are either heavy (Presidio brings a language model), no longer
kept (scrubadub), made for files of source code (detect-secrets), or need the caller's country to read a number
(phonenumbers). What is promised is little: what has the form of such data is replaced. Names and addresses are not found.

A replacement is a word in brackets such as `[email]`; it holds nothing of what it stands for. Where
data stands without a gap, a second look may find what the first replaced the neighbour of.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Literal, get_args

Kind = Literal["secrets", "emails", "cards", "ip", "phones"]
KINDS: tuple[Kind, ...] = get_args(Kind)
"""All kinds, in the order in which they are looked for: a longer form before what may be part of it."""

_SECRETS = re.compile(
    r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,40}PRIVATE KEY-----|\Z)"
    r"|\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"
    r"|\bgh[pousr]_[A-Za-z0-9]{30,255}\b|\bgithub_pat_\w{22,255}\b|\bglpat-[\w-]{20,}"
    r"|\bxox[abeoprs]-[A-Za-z0-9-]{10,}|\b(?:sk|rk|pk)[-_](?:[a-z]+[-_])?[A-Za-z0-9_-]{20,}"
    r"|\bAIza[\w-]{35}|\bhf_[A-Za-z0-9]{30,}|\bnpm_[A-Za-z0-9]{36}\b"
    r"|\beyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]{8,}"
    r"|(?<=://)[^\s/:@\[\]]{1,200}:[^\s/@\[\]]{1,200}(?=@)",
    re.DOTALL,
)
_ASSIGNED = re.compile(
    r"(?P<name>\b(?:password|passwd|pwd|passphrase|secret|api[_-]?key|access[_-]?key|auth[_-]?token|access[_-]?token"
    r"|client[_-]?secret)\b[\"']?\s{0,3}(?::|=|\bis\b)\s{0,3}[\"']?|\bbearer\s{1,3})(?P<value>[^\s\"'<>\[\],;]{6,500})",
    re.IGNORECASE,
)
_EMAIL = re.compile(r"(?<![\w.+-])[\w.+%-]{1,64}@(?:[^\W_](?:[\w-]{0,61}[^\W_])?\.){1,8}[^\W\d_]{2,24}\b")
_CARD = re.compile(r"(?<![\w.-])\d(?:[ -]?\d){12,18}(?![\w-]|\.\d)")
_IPV4 = re.compile(r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w]|\.\d)")
_IPV6 = re.compile(r"(?<![\w:.])[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){2,7}(?![\w:])")
# With its country code, or grouped as numbers are dialled; bare digits are amounts, years and ids.
_PHONE = re.compile(
    r"(?<![\w.+-])(?:\+\d{1,3}[ .-]?(?:\(\d{1,4}\)[ .-]?)?\d{1,4}(?:[ .-]?\d{2,4}){1,4}"
    r"|\(\d{2,4}\)[ .-]?\d{3,4}[ .-]?\d{3,4}|\d{3}([.-])\d{3}\1\d{4})(?![\w-]|\.\d)"
)

_LOOKS = 3


class Redactor:
    """Replaces data of some kinds.

    Args:
        kinds: What to replace; none leaves every text as it is.
    """

    def __init__(self, kinds: Iterable[Kind]) -> None:
        wanted = set(kinds)
        self.kinds: tuple[Kind, ...] = tuple(kind for kind in KINDS if kind in wanted)
        self._steps = [_STEPS[kind] for kind in self.kinds]

    def redact(self, text: str) -> str:
        """The text with what was found replaced."""
        for _ in range(_LOOKS):
            before = text
            for step in self._steps:
                text = step(text)
            if text == before:
                break
        return text


def _secrets(text: str) -> str:
    text = _SECRETS.sub("[secret]", text)
    return _ASSIGNED.sub(lambda match: f"{match['name']}[secret]", text)


def _emails(text: str) -> str:
    return _EMAIL.sub("[email]", text)


def _cards(text: str) -> str:
    return _CARD.sub(lambda match: "[card]" if _passes_luhn(match[0]) else match[0], text)


def _phones(text: str) -> str:
    return _PHONE.sub(lambda match: "[phone]" if _is_phone_length(match[0]) else match[0], text)


def _addresses(text: str) -> str:
    for pattern in (_IPV4, _IPV6):
        text = pattern.sub(lambda match: "[ip]" if _is_address(match[0]) else match[0], text)
    return text


_STEPS: Mapping[Kind, Callable[[str], str]] = {
    "secrets": _secrets,
    "emails": _emails,
    "phones": _phones,
    "cards": _cards,
    "ip": _addresses,
}


def _passes_luhn(digits: str) -> bool:
    """Whether the check digit of a card's number is right."""
    total = 0
    for place, char in enumerate(reversed([char for char in digits if char.isdecimal()])):
        digit = int(char) * (1 + place % 2)
        total += digit - 9 if digit > 9 else digit
    return total % 10 == 0


def _is_phone_length(number: str) -> bool:
    return 8 <= sum(char.isdecimal() for char in number) <= 15


def _is_address(text: str) -> bool:
    if not any(char.isalnum() for char in text):
        return False
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
