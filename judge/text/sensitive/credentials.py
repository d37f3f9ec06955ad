"""Keys, tokens and passwords. Pure.

Each expression runs in linear time: it starts at the start of a run of characters, or ends in its only
unbounded repetition.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from judge.text.sensitive import assigned

_KEY_BLOCK: Final = re.compile(
    r"-{4,5} ?BEGIN (?P<kind>[A-Za-z0-9 ]{0,40}"
    r"(?:PRIVATE KEY|PGP MESSAGE|PGP PRIVATE KEY BLOCK|Static key)(?: BLOCK| V1)?) ?-{4,5}"
    r"|PuTTY-User-Key-File-\d:"
)
_AFTER_BLOCK: Final = re.compile(r"(?: ?-){0,8}")
_REST_OF_LINE: Final = re.compile(r"[^\n]{0,200}")
_HEX32: Final = "[a-f0-9]{32}"
_PREFIXED: Final = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"(?:AKIA|ASIA|AGPA|AIDA|AROA|ANPA|ABIA|ACCA)[0-9A-Z]{16}(?![0-9A-Za-z])(?::[A-Za-z0-9/+=]{30,44})?"
    r"|gh[pousr]_[A-Za-z0-9]{20,255}|github_pat_\w{20,255}|gl(?:pat|dt|rt|ptt|cbt|soat)-[\w-]{20,255}"
    r"|xox[abeoprs]-[A-Za-z0-9-]{10,255}|xapp-[A-Za-z0-9-]{10,255}"
    r"|(?:sk|rk|pk|whsec|xai|pplx|nvapi|tvly)[-_][A-Za-z0-9_-]{20,255}"
    r"|AIza[\w-]{35}|ya29\.[\w-]{20,255}|GOCSPX-[\w-]{20,255}|1//0[\w-]{30,255}"
    r"|(?:hf|r8|gsk|npm|figd|ntn|pcsk|phc|phx|dp\.(?:st|pt|ct)|rubygems|vercel|lsv2_[ps]t|sntry[su])[._]"
    r"[\w-]{28,255}"
    r"|pypi-[\w-]{40,255}|dckr_pat_[\w-]{20,255}|PMAK-[\w-]{24,255}|NRAK-[A-Z0-9]{27}|HRKU-[\w-]{30,64}|xkeysib-[\w-]{40,255}"
    rf"|(?:AC|SK|dapi|key-){_HEX32}(?![a-zA-Z0-9])|\d{{8,10}}:AA[\w-]{{33}}|ops_eyJ[\w=-]{{10,4096}}"
    r"|SG\.[\w-]{16,64}\.[\w-]{16,64}|hv[sb]\.[\w-]{20,255}|do[opr]_v1_[a-f0-9]{40,64}|glsa_[\w]{30,64}"
    r"|shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}|sq0(?:atp|csp)-[\w-]{22,64}|lin_api_[A-Za-z0-9]{30,64}"
    r"|AT(?:ATT3|CTT3|BB)[\w=-]{24,255}"
    r"|AGE-SECRET-KEY-1[0-9A-Z]{40,70}"
    r")"
)
# A key of another service: a name, then mixed-case letters and digits.
_NAMED_RUN: Final = re.compile(
    r"(?<![\w./-])(?!sha\d)[a-z][a-z0-9]{1,9}[_-](?:[a-z0-9]{1,8}[_-]){0,2}"
    r"(?P<run>[A-Za-z0-9]{24,255})(?![\w-])"
)
# Addresses that are secrets themselves, such as webhooks.
_WEBHOOK: Final = re.compile(
    r"(?:hooks\.slack\.com/(?:services|workflows|triggers)/|discord(?:app)?\.com/api/webhooks/"
    r"|webhook\.office\.com/webhookb2/)(?P<value>[\w/@-]{16,400})",
    re.IGNORECASE,
)
# A web token starts at the start of its run of characters, for linear time.
_WEB_TOKEN: Final = re.compile(r"(?<![\w-])eyJ[\w-]{8,}+\.[\w-]{8,}+(?:\.[\w-]*+)*+")
_IN_ADDRESS: Final = re.compile(
    r"(?<=://)[^\s/:@\[\]]{0,200}:[^\s/\[\]]{1,200}(?=@)|(?<=://)[0-9a-f]{32}(?=@)"
)
_USER_ALONE: Final = re.compile(
    r"\b(?:rediss?|amqps?|mqtts?)://(?P<value>[^\s/:@\[\]]{6,200})@", re.IGNORECASE
)
_ORACLE: Final = re.compile(r"jdbc:oracle:\w{2,8}:(?P<value>[^\s/@]{1,64}/[^\s/@]{1,128})@", re.IGNORECASE)
_SCHEMES: Final = r"(?:basic|bearer|token|digest|apikey|negotiate|aws4-hmac-sha256)"
_AUTHORIZATION: Final = re.compile(
    rf"\b(?:proxy-)?authorization[\"']?\s{{0,3}}[:=]\s{{0,3}}[\"']?(?:{_SCHEMES}\s{{1,3}})?"
    rf"(?P<value>(?!{_SCHEMES}\b)[^\s\"'<>\[\],;]{{6,4096}})",
    re.IGNORECASE,
)
_SIGNATURE: Final = re.compile(
    r"(?<![A-Za-z0-9])sig(?:nature)?=(?P<value>[\w%+/=.~-]{20,4096})", re.IGNORECASE
)
_COOKIE: Final = re.compile(
    r"\b(?:set-)?cookie2?[\"']?\s{0,3}[:=]\s{0,3}[\"']?"
    r"(?P<value>[\w.-]{1,64}=[^\s\"',;]{1,4096}(?:;\s?[\w.-]{1,64}=[^\s\"',;]{1,4096}){0,40})",
    re.IGNORECASE,
)
_CURL_USER: Final = re.compile(
    r"\bcurl\b[^\n]{0,200}?\s(?:-u|--user)[ =]{0,2}[\"']?(?P<value>[^\s:\"']{1,64}:[^\s\"']{3,200})"
)
_BEARER: Final = re.compile(r"\bbearer\s{1,3}(?P<value>[\w.~+/=-]{6,4096})", re.IGNORECASE)
_LEAST_OF_A_KIND: Final = 2
_LEAST_CHARS: Final = 6


def find(text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of secrets, in order, not nested."""
    places = sorted(
        {*_blocks(text), *_tokens(text), *_sent(text), *assigned.find(text)},
        key=lambda place: (place[0], -place[1]),
    )
    end = 0
    for start, stop in places:
        if start >= end:
            yield start, stop
            end = stop


def _blocks(text: str) -> Iterator[tuple[int, int]]:
    """Yield key blocks up to their last line; a truncated one up to the end of the text."""
    position = 0
    while (begun := _KEY_BLOCK.search(text, position)) is not None:
        kind = begun["kind"]
        last, after = ("Private-MAC:", _REST_OF_LINE) if kind is None else (f"END {kind}", _AFTER_BLOCK)
        end = text.find(last, begun.end())
        rest = after.match(text, end + len(last)) if end >= 0 else None
        position = len(text) if rest is None else rest.end()
        yield begun.start(), position


def _tokens(text: str) -> Iterator[tuple[int, int]]:
    for expression in (_PREFIXED, _WEB_TOKEN, _IN_ADDRESS):
        for match in expression.finditer(text):
            yield match.span()
    for match in _NAMED_RUN.finditer(text):
        if _is_random(match["run"]):
            yield match.span()


def _sent(text: str) -> Iterator[tuple[int, int]]:
    """Yield credentials in headers, addresses and command lines."""
    for match in _AUTHORIZATION.finditer(text):
        if not assigned.is_said(match["value"]):
            yield match.span("value")
    for expression in (_WEBHOOK, _ORACLE, _COOKIE, _CURL_USER):
        for match in expression.finditer(text):
            if len(match["value"]) >= _LEAST_CHARS:
                yield match.span("value")
    for expression in (_BEARER, _SIGNATURE, _USER_ALONE):
        for match in expression.finditer(text):
            if assigned.is_mixed(match["value"]) or len(match["value"]) >= assigned.LONG_VALUE:
                yield match.span("value")


def _is_random(run: str) -> bool:
    """Return whether a run mixes upper and lower case letters and digits, unlike words and checksums."""
    return (
        sum(map(str.isdecimal, run)) >= _LEAST_OF_A_KIND
        and sum(map(str.isupper, run)) >= _LEAST_OF_A_KIND
        and sum(map(str.islower, run)) >= _LEAST_OF_A_KIND
    )
