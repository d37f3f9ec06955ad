"""Redact secrets and common personal data in a text before it leaves the process, and known secrets in logs.

The patterns are data (`data/sensitive.toml`); check digits, tables and word lists decide on what they find.
Only data in its plain form is found: not what escapes, look-alike letters or words such as "at" disguise, no
street addresses or national ids, and names only with the optional engine.
"""

from __future__ import annotations

import base64
import ipaddress
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final, Literal, get_args
from urllib.parse import quote, quote_plus

from judge.text.normal import neutralize, plain_form
from judge.text.words import read_data

Kind = Literal["secrets", "emails", "ibans", "cards", "ip", "phones", "names"]
KINDS: tuple[Kind, ...] = tuple(kind for kind in get_args(Kind) if kind != "names")
"""Kinds of data; `names` needs an engine (`judge.evaluate.guard`), the others have a recognisable form."""

Find = Callable[[str], Iterator[tuple[int, int]]]

MASK: Final = "***"
MIN_CHARS: Final = 6
"""Shorter known secrets are not masked, because they would match ordinary words."""
_ORDER: Final[tuple[Kind, ...]] = ("secrets", "emails", "ibans", "cards", "phones", "ip")
_LOOK_BACK = 28
_LONG_VALUE = 24
_DIGITS_OF_PHONE = range(8, 16)
_NO_CARD = re.compile(r"(?!4|5|6|2[2-7]|3[04-9])")
_NO_SECRETS: Final = frozenset(read_data("sensitive.toml")["no_secrets"].split())
_PLACEHOLDER = re.compile(
    r"(?:^|[_-])(?:your|insert|change(?:me)?|example|placeholder|here|x{3,})(?=$|[_-])", re.IGNORECASE
)
# A call, an attribute, or a name or type that ends with the kind of secret.
_EXPRESSION = re.compile(
    r"[A-Za-z_]\w{0,60}(?:\.[A-Za-z_]\w{0,60}){0,8}\(|(?:[A-Za-z_]{1,20}\.){1,8}[A-Za-z_]{1,20}\)?$"
    r"|_?[a-z]{0,30}(?:_[a-z]{1,30}){0,6}_?(?:key|token|secret|password|passwd|pwd|type|none|bytes)s?\)?$"
    r"|[A-Za-z]{0,60}(?:Key|Token|Secret|Password|Type|Value|String|Bytes|Str|Provider)s?\)?$"
)
_KEY_NAMES: Final = tuple(read_data("sensitive.toml")["key_names"].split())
_DATE = re.compile(r"(?:0?[1-9]|[12]\d|3[01])[ ./-](?:0?[1-9]|[12]\d|3[01])[ ./-](?:1\d|20)\d\d(?!\d)")
_NO_PHONE = re.compile(r"0\d{0,2}(?: 0{3})+|0\d(?:[ \t/_-]{1,3}\d\d){0,3}|0\d(?:[ \t/_-]{1,3}\d\d){5,}")
_TITLE = re.compile(r" {1,3}[A-Z]")
_LEADING_ZEROS = re.compile(r"\b0+(?=\d)")
_THOUSANDS = re.compile(r"[1-9]\d{0,2}([ .])\d{3}(?:\1\d{3})*")


class Redactor:
    def __init__(self, kinds: Iterable[Kind], *, find_names: Find | None = None) -> None:
        wanted = set(kinds)
        self.kinds: tuple[Kind, ...] = tuple(kind for kind in get_args(Kind) if kind in wanted)
        self._find_names = find_names if "names" in wanted else None
        if "names" in wanted and find_names is None:
            raise ValueError("names needs an engine that finds them; give find_names or leave names out")

    def redact(self, text: str) -> str:
        """Return the redacted text, without invisible characters unless `kinds` is empty."""
        if not self.kinds:
            return text
        text = neutralize(text)
        for kind in _ORDER:
            if kind in self.kinds:
                text = _replaced(text, find_sensitive(kind, text), f"[{kind.removesuffix('s')}]")
        return text if self._find_names is None else _replaced(text, self._find_names(text), "[name]")


def find_sensitive(kind: Kind, text: str) -> Iterator[tuple[int, int]]:
    plain = plain_form(text)
    places = {place for rule in _rules(kind) for place in rule.find(plain)}
    end = 0
    for start, stop in sorted(places, key=lambda place: (place[0], -place[1])):
        if start >= end:
            yield start, stop
            end = stop


@dataclass(frozen=True, slots=True)
class _Rule:
    """A pattern and a check of the data, which is the match or its value."""

    expression: re.Pattern[str]
    check: Callable[[re.Match[str], str], bool] | None
    unless: re.Pattern[str] | None

    def find(self, text: str) -> Iterator[tuple[int, int]]:
        group: int | str = "value" if "value" in self.expression.groupindex else 0
        for match in self.expression.finditer(text):
            start, end = match.span(group)
            if start < 0:
                start, end = match.span()
            if self.unless is not None and self.unless.search(text[max(start - _LOOK_BACK, 0) : start]):
                continue
            if self.check is None or self.check(match, text[start:end]):
                yield start, end


@cache
def _rules(kind: Kind) -> tuple[_Rule, ...]:
    data = read_data("sensitive.toml")
    parts = data["parts"]
    unless = {name: re.compile(pattern, re.IGNORECASE) for name, pattern in data["unless"].items()}
    return tuple(
        _Rule(
            re.compile(_with_parts(rule["pattern"], parts)),
            _CHECKS.get(rule.get("check", "")),
            unless.get(rule.get("unless", "")),
        )
        for rule in data[kind]
    )


def _with_parts(pattern: str, parts: Mapping[str, str]) -> str:
    for name in reversed(tuple(parts)):  # later parts name earlier ones
        pattern = pattern.replace(f"%{name}%", parts[name])
    return pattern


def _replaced(text: str, places: Iterable[tuple[int, int]], word: str) -> str:
    parts: list[str] = []
    end = 0
    for start, stop in places:
        parts += (text[end:start], word)
        end = stop
    return "".join((*parts, text[end:])) if parts else text


def _is_random(match: re.Match[str], _: str) -> bool:
    """Whether a run has two upper and lower case letters and digits each, unlike words and checksums."""
    return all(sum(map(kind, match["random"])) >= 2 for kind in (str.isdecimal, str.isupper, str.islower))


def _is_mixed(value: str) -> bool:
    if any(map(str.isdecimal, value)):
        return not value.replace(".", "").isdecimal() or len(value) >= 8
    return any(map(str.isupper, value[1:])) and any(map(str.islower, value))


def _is_secret(match: re.Match[str], value: str) -> bool:
    """Whether the value after a name such as "password:" is a secret, not a word about it."""
    named = {"name": "pass", "link": "="} | match.groupdict()
    is_assigned = named["link"][:1] in {":", "="}  # not "is", which may be followed by a word about it
    if len(value) < 4 or not any(map(str.isalnum, value)) or value.startswith(("$", "{", "%", "(", "<")):
        return False  # stars, a variable's name, a template
    if _PLACEHOLDER.search(value) or any(
        word.rstrip(".!?:)").lower() in _NO_SECRETS for word in value.split()
    ):
        return False
    return _is_mixed(value) or (
        is_assigned and (not named["name"].lower().startswith(_KEY_NAMES) or len(value) >= _LONG_VALUE)
    )


def _is_secret_no_code(match: re.Match[str], value: str) -> bool:
    """Exclude an expression or type: `token = self.token()`, `password: str`."""
    return match["after"] is None and _EXPRESSION.match(value) is None and _is_secret(match, value)


def _is_domain(match: re.Match[str], _: str) -> bool:
    """Whether the last part is letters, as in top-level domains; "react@18.2.0" is no address."""
    last = match["domain"].rstrip("-_").rpartition(".")[2]
    return len(last) >= 2 and (last.isalpha() or last.lower().startswith("xn--"))


def _is_card(_: re.Match[str], number: str) -> bool:
    """Whether an issuer's first digits and the check digit (ISO/IEC 7812) are right."""
    digits = "".join(filter(str.isdecimal, number))
    doubled = [int(digit) * (1 + place % 2) for place, digit in enumerate(reversed(digits))]
    if _NO_CARD.match(digits) or (len(digits) < 14 and not digits.startswith("4")):
        return False
    return sum(sum(divmod(digit, 10)) for digit in doubled) % 10 == 0


def _is_iban(_: re.Match[str], number: str) -> bool:
    """Whether the check digits (ISO 13616) are right; words after "at 10" have too few digits."""
    account = "".join(filter(str.isalnum, number))
    if not account.isascii() or sum(map(str.isdecimal, account)) < 0.4 * len(account):
        return False
    return int("".join(str(int(char, 36)) for char in account[4:] + account[:4])) % 97 == 1


def _is_phone(_: re.Match[str], number: str) -> bool:
    digits = sum(map(str.isdecimal, number))
    return digits in _DIGITS_OF_PHONE and not _DATE.match(number) and not _NO_PHONE.fullmatch(number)


def _is_called_phone(match: re.Match[str], number: str) -> bool:
    is_number = _is_phone(match, number) or sum(map(str.isdecimal, number)) == 7
    return is_number and not _THOUSANDS.fullmatch(number)


def _is_address(match: re.Match[str], address: str) -> bool:
    """Whether it is an IP address with a digit (`a::b` is code), and no section number before a title."""
    after = match.string[match.end() : match.end() + 4]
    if match.string[max(match.start() - 1, 0) : match.start()] in {"", "\n"} and _TITLE.match(after):
        return False
    try:
        ipaddress.ip_address(address if ":" in address else _LEADING_ZEROS.sub("", address))
    except ValueError:
        return False
    return any(map(str.isdecimal, address))


_CHECKS: Final[Mapping[str, Callable[[re.Match[str], str], bool]]] = {
    "random": _is_random,
    "mixed": lambda _, value: _is_mixed(value) or len(value) >= _LONG_VALUE,
    "no_word": lambda _, value: value.rstrip(".!?:)").lower() not in _NO_SECRETS,
    "secret": _is_secret,
    "secret_no_code": _is_secret_no_code,
    "domain": _is_domain,
    "card": _is_card,
    "iban": _is_iban,
    "phone": _is_phone,
    "called_phone": _is_called_phone,
    "address": _is_address,
}


class Masker:
    def __init__(self, secrets: Iterable[str]) -> None:
        forms = {form for secret in secrets if len(secret) >= MIN_CHARS for form in forms_of(secret)}
        # Longest first, because one secret may start with another.
        words = sorted(forms, key=len, reverse=True)
        self._expression = re.compile("|".join(map(re.escape, words))) if words else None

    def mask(self, text: str) -> str:
        return text if self._expression is None else self._expression.sub(MASK, text)


def forms_of(secret: str) -> set[str]:
    """Return the forms of a secret in a text: plain, in a URL, escaped once or twice, in base64."""
    raw = secret.encode("utf-8", "surrogatepass")
    forms = {secret, quote(raw, safe=""), quote(raw), quote_plus(raw), repr(secret)[1:-1], repr(raw)[2:-1]}
    # Escaped twice, as a log line escapes a repr.
    forms |= {
        json.dumps(form, ensure_ascii=ascii_only)[1:-1] for form in forms for ascii_only in (True, False)
    }
    forms |= {encode(raw).decode().rstrip("=") for encode in (base64.b64encode, base64.urlsafe_b64encode)}
    return {form for form in forms if len(form) >= MIN_CHARS}
