"""Keys, tokens and passwords. Pure.

Each expression reads a run of characters once: it begins where the run begins, or ends in its only repetition
without a bound.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_KEY_BLOCK = re.compile(
    r"-----BEGIN (?P<kind>[A-Z0-9 ]{0,40}(?:PRIVATE KEY|PGP MESSAGE|PGP PRIVATE KEY BLOCK)(?: BLOCK)?)-----"
)
_PREFIXED = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"(?:AKIA|ASIA|AGPA|AIDA|AROA|ANPA)[0-9A-Z]{16}(?![0-9A-Za-z])"
    r"|gh[pousr]_[A-Za-z0-9]{20,255}|github_pat_\w{20,255}|gl(?:pat|dt|rt|ptt)-[\w-]{20,255}"
    r"|xox[abeoprs]-[A-Za-z0-9-]{10,255}|xapp-[A-Za-z0-9-]{10,255}"
    r"|(?:sk|rk|pk|whsec)[-_][A-Za-z0-9_-]{20,255}"
    r"|AIza[\w-]{35}|ya29\.[\w-]{20,255}|GOCSPX-[\w-]{20,255}"
    r"|hf_[A-Za-z0-9]{30,255}|npm_[A-Za-z0-9]{36}|pypi-[\w-]{40,255}|dckr_pat_[\w-]{20,255}"
    r"|SG\.[\w-]{16,64}\.[\w-]{16,64}|hv[sb]\.[\w-]{20,255}|dop_v1_[a-f0-9]{40,64}|glsa_[\w]{30,64}|gsk_[A-Za-z0-9]{30,255}"
    r"|shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}|sq0(?:atp|csp)-[\w-]{22,64}|lin_api_[A-Za-z0-9]{30,64}|ATATT3[\w=-]{30,255}"
    r"|AGE-SECRET-KEY-1[0-9A-Z]{40,70}"
    r")"
)
# A web token begins where its run of characters begins, or a row of them would be read from every one on.
_WEB_TOKEN = re.compile(r"(?<![\w-])eyJ[\w-]{8,}+\.[\w-]{8,}+(?:\.[\w-]*+)*+")
_IN_ADDRESS = re.compile(r"(?<=://)[^\s/:@\[\]]{0,200}:[^\s/\[\]]{1,200}(?=@)")
_AUTHORIZATION = re.compile(
    r"\b(?:proxy-)?authorization[\"']?\s{0,3}[:=]\s{0,3}[\"']?(?:(?:basic|bearer|token|digest|apikey|negotiate)\s{1,3})?"
    r"(?P<value>(?!(?:basic|bearer|token|digest|apikey|negotiate)\b)[^\s\"'<>\[\],;]{6,4096})",
    re.IGNORECASE,
)
_CURL_USER = re.compile(
    r"\bcurl\b[^\n]{0,200}?\s(?:-u|--user)[ =]{0,2}[\"']?(?P<value>[^\s:\"']{1,64}:[^\s\"']{3,200})"
)
_BEARER = re.compile(r"\bbearer\s{1,3}(?P<value>[\w.~+/=-]{6,4096})", re.IGNORECASE)
_ASSIGNED = re.compile(
    r"(?<![A-Za-z0-9])(?P<name>pass(?:word|wd|phrase|code)?|pwd|pw|passwort|kennwort|contrasena|mot de passe|senha"  # noqa: E501
    r"|(?:[a-z0-9]{1,20}[_-]){0,3}(?:secret|token|api[_ -]?key|password|passwd|access[_ -]?key|secret[_ -]?key|private[_ -]?key|account[_ -]?key|shared[_ -]?access[_ -]?key|signing[_ -]?key|encryption[_ -]?key|session[_ -]?id|credentials?))"  # noqa: E501
    r"(?:[_ -](?:key|token|id))?[\"'`*]{0,3}\s{0,3}(?P<link>:=|=>|[:=]|\bis\b)\s{0,3}[\"'`*]{0,3}"
    r"(?P<value>[^\s\"'`<>\[\],;]{4,500})",
    re.IGNORECASE,
)
_PASSWORDS: Final = ("pass", "pw", "kennwort", "contrase", "mot de", "senha")
# What is said of passwords and keys in documents that hold none.
_NO_SECRETS: Final = frozenset(
    [
        "required",
        "optional",
        "incorrect",
        "invalid",
        "missing",
        "wrong",
        "expired",
        "empty",
        "null",
        "none",
        "true",
        "false",
        "must",
        "should",
        "cannot",
        "string",
        "text",
        "value",
        "never",
        "always",
        "hidden",
        "encrypted",
        "hashed",
        "stored",
        "changed",
        "reset",
        "needed",
        "default",
        "valid",
        "protected",
        "masked",
        "unknown",
        "undefined",
        "redacted",
        "secret",
        "token",
        "password",
        "here",
        "yours",
        "what",
        "when",
        "where",
        "with",
        "that",
        "this",
        "your",
        "the",
        "from",
        "used",
        "generated",
        "provided",
    ]
)
_WORD_END: Final = ".!?:)"
_LONG_VALUE: Final = 24


def find(text: str) -> Iterator[tuple[int, int]]:
    """Where secrets stand, in their order, none within another."""
    places = sorted(
        {*_blocks(text), *_tokens(text), *_assigned(text)}, key=lambda place: (place[0], -place[1])
    )
    end = 0
    for start, stop in places:
        if start >= end:
            yield start, stop
            end = stop


def _blocks(text: str) -> Iterator[tuple[int, int]]:
    """Blocks of keys, to their last line; one that is cut off, to the end of the text."""
    position = 0
    while (begun := _KEY_BLOCK.search(text, position)) is not None:
        last = f"-----END {begun['kind']}-----"
        end = text.find(last, begun.end())
        position = len(text) if end < 0 else end + len(last)
        yield begun.start(), position


def _tokens(text: str) -> Iterator[tuple[int, int]]:
    for expression in (_PREFIXED, _WEB_TOKEN, _IN_ADDRESS):
        for match in expression.finditer(text):
            yield match.span()


def _assigned(text: str) -> Iterator[tuple[int, int]]:
    for match in _AUTHORIZATION.finditer(text):
        if match["value"].rstrip(_WORD_END).lower() not in _NO_SECRETS:
            yield match.span("value")
    for match in _CURL_USER.finditer(text):
        yield match.span("value")
    for match in _BEARER.finditer(text):
        if _is_mixed(match["value"]) or len(match["value"]) >= _LONG_VALUE:
            yield match.span("value")
    for match in _ASSIGNED.finditer(text):
        value = match["value"].rstrip(_WORD_END)
        if _is_secret(match["name"].lower(), match["link"].lower(), value):
            yield match.start("value"), match.start("value") + len(value)


def _is_secret(name: str, link: str, value: str) -> bool:
    """Whether what follows a name such as "password:" is one, and not a word about it."""
    if len(value) < 4 or value.lower() in _NO_SECRETS or value.startswith(("$", "{", "%", "(")):
        return False  # a variable's name, a template
    if _is_mixed(value):
        return True
    if link == "is":
        return False
    return name.startswith(_PASSWORDS) or link != ":" or len(value) >= _LONG_VALUE


def _is_mixed(value: str) -> bool:
    """Whether a value has letters and digits or signs as words have not."""
    if any(char.isdecimal() for char in value):
        return not value.replace(".", "").isdecimal() or len(value) >= 8
    inner = value[1:]
    return any(char.isupper() for char in inner) and any(char.islower() for char in value)
