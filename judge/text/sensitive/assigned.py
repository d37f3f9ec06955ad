"""Secrets assigned to a name: `password: x`, `api_key=x`, `<token>x</token>`, `--password x`. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_WORDS: Final = (
    r"pass(?:word|wd|phrase|code)?|pwd|pw|passwort|kennwort|contrasena|mot de passe|senha|lozinka|haslo"
    "|wachtwoord|parola|\u5bc6\u7801|\u30d1\u30b9\u30ef-\u30c9"
)
_PARTS: Final = (
    r"secret|token|password|passwd|credentials?|session[_ -]?id|shared[_ -]?access[_ -]?signature"
    r"|(?:api|access|secret|private|account|signing|encryption)[_ -]?key"
)
# Parts of longer names count, too: DB_PASSWORD, authToken, client_secret.
_ASSIGNED: Final = re.compile(
    rf"(?=[pckmshlwtae\u5bc6\u30d1])(?P<name>(?<![A-Za-z0-9])(?:{_WORDS})|{_PARTS})(?:[_ -](?:key|token|id))?"
    r"\\?[\"'`*]{0,3}\s{0,3}(?P<link>:=|=>|[:=]|\bis\b)\s{0,3}"
    r"(?:\"(?P<double>(?:[^\"\\\n]|\\.){4,200})\"|'(?P<single>(?:[^'\\\n]|\\.){4,200})'"
    r"|\\?[\"'`*]{0,3}(?P<value>[^\s\"'`<>\[\],;]{4,500}))",
    re.IGNORECASE,
)
_ELEMENT: Final = re.compile(
    r"<[\w:-]{0,20}(?:password|passwd|pwd|secret|token|api-?key)>(?P<value>[^<\s]{4,500})</", re.IGNORECASE
)
# Any other key: x-functions-key: ..., AZURE_OPENAI_KEY=..., and "api key" without a sign after it.
_KEY: Final = re.compile(
    r"(?:(?<=[_-])key|\bapi[_ -]?key)(?:\\?[\"']?\s{0,3}[:=]\s{0,3}\\?[\"']?|\s{1,3})"
    r"(?P<value>[A-Za-z0-9+/=]{16,400})(?![\w-])",
    re.IGNORECASE,
)
_LEAST_DIGITS: Final = 3
# -pSecret without a blank, -p Secret with one, --password Secret.
_JOINED: Final = re.compile(
    r"\b(?:mysql(?:dump|admin)?|mariadb)\b[^\n]{0,200}?\s-p[\"']?(?P<value>[^\s\"'-][^\s\"']{3,200})"
)
_APART: Final = re.compile(
    r"\b(?:sshpass\b[^\n]{0,20}?\s-p|(?:redis-cli|docker login)\b[^\n]{0,200}?\s-[ap])\s{0,2}[\"']?"
    r"(?P<value>[^\s\"'-][^\s\"']{3,200})"
)
_LONG_OPTION: Final = re.compile(
    r"(?<!\S)--?(?:password|passwd|pass|token|api-?key|secret)[ =][\"']?"
    r"(?P<value>(?![a-z]+\b(?!\S))[^\s\"'<>\[\]-][^\s\"'<>\[\]]{5,400})"
)
_PASSWORDS: Final = ("pass", "pw", "kennwort", "contrase", "mot de", "senha", "lozinka", "haslo", "wacht",
                     "parola", "\u5bc6", "\u30d1")  # fmt: skip
# Words about passwords and keys in documents without secrets.
_NO_SECRETS: Final = frozenset({
    "required", "optional", "incorrect", "invalid", "missing", "wrong", "expired", "empty", "null",
    "none", "true", "false", "must", "should", "cannot", "string", "text", "value", "never", "always",
    "hidden", "encrypted", "hashed", "stored", "changed", "reset", "needed", "default", "valid",
    "protected", "masked", "unknown", "undefined", "redacted", "secret", "token", "password", "here",
    "yours", "what", "when", "where", "with", "that", "this", "your", "the", "from", "used",
    "generated", "provided", "characters", "chars", "letters", "digits", "enter", "please", "least",
    "most", "field", "include", "same-origin", "omit", "fail", "failed", "failure", "success",
})  # fmt: skip
_PLACEHOLDER: Final = re.compile(
    r"(?:^|[_-])(?:your|insert|change(?:me)?|example|placeholder|here|x{3,})(?=$|[_-])", re.IGNORECASE
)
# A call, an attribute, or a name or type that ends with the kind of secret.
_EXPRESSION: Final = re.compile(
    r"[A-Za-z_]\w{0,60}(?:\.[A-Za-z_]\w{0,60}){0,8}\(|(?:[A-Za-z_]{1,20}\.){1,8}[A-Za-z_]{1,20}\)?$"
    r"|_?[a-z]{0,30}(?:_[a-z]{1,30}){0,6}_?(?:key|token|secret|password|passwd|pwd|type|none|bytes)s?\)?$"
    r"|[A-Za-z]{0,60}(?:Key|Token|Secret|Password|Type|Value|String|Bytes|Str|Provider)s?\)?$"
)
WORD_END: Final = ".!?:)"
LONG_VALUE: Final = 24


def find(text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of the values, in no order."""
    for expression in (_ELEMENT, _JOINED, _APART, _LONG_OPTION):
        for match in expression.finditer(text):
            if _is_secret("pass", "=", match["value"]):
                yield match.span("value")
    for match in _KEY.finditer(text):
        if sum(map(str.isdecimal, match["value"])) >= _LEAST_DIGITS and not match["value"].isdecimal():
            yield match.span("value")
    for match in _ASSIGNED.finditer(text):
        group = next(name for name in ("value", "double", "single") if match[name] is not None)
        value = match[group].rstrip(WORD_END)
        if group == "value" and _is_code(value, text[match.end() : match.end() + 1]):
            continue
        if _is_secret(match["name"].lower(), match["link"].lower(), value):
            yield match.start(group), match.start(group) + len(value)


def is_said(value: str) -> bool:
    """Return whether a value is a word about secrets."""
    return value.rstrip(WORD_END).lower() in _NO_SECRETS


def is_mixed(value: str) -> bool:
    """Return whether a value mixes letters with digits or signs, unlike words."""
    if any(char.isdecimal() for char in value):
        return not value.replace(".", "").isdecimal() or len(value) >= 8
    inner = value[1:]
    return any(char.isupper() for char in inner) and any(char.islower() for char in value)


def _is_secret(name: str, link: str, value: str) -> bool:
    """Return whether the value after a name such as "password:" is a secret, not a word about it."""
    if len(value) < 4 or not any(map(str.isalnum, value)) or value.startswith(("$", "{", "%", "(", "<")):
        return False  # stars, a variable's name, a template
    if _PLACEHOLDER.search(value) or any(map(is_said, value.split())):
        return False
    if is_mixed(value):
        return True
    return link != "is" and (name.startswith(_PASSWORDS) or len(value) >= LONG_VALUE)


def _is_code(value: str, after: str) -> bool:
    """Return whether an unquoted value is an expression or type: `token = self.token()`, `password: str`."""
    return after == "[" or _EXPRESSION.match(value) is not None
