"""Format untrusted text for a terminal, and errors without private data."""

from __future__ import annotations

import errno
import os
import re
import socket
import ssl
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the command line prints its help without importing the models
    from pydantic import ValidationError

    from schemas import Failed, Scored, Unscored

_COUNTS = re.compile(r"\d+ of \d+")
MOST_ITEMS = 3
_LACKING = (
    ("missing", ("facts", "conclusions"), "item", "matched"),
    ("missing terms", ("terms",), "item", "matched"),
    ("not supported", ("claims",), "claim_span", "supported"),
    ("beside the question", ("claims",), "claim_span", "relevant"),
)
"""What lowers a score: its words, its lists in the evidence, an item's text and the flag that it lacks."""


def printable(text: str, limit: int | None = None) -> str:
    r"""Return a text on one line, unprintable characters escaped, ending with an ellipsis beyond `limit`."""
    if limit is not None:
        text = text[: 4 * limit + 64]  # cut first: an answer may be megabytes long
    line = " ".join(text.split())
    if not line.isprintable():
        line = "".join(
            char if char.isprintable() else char.encode("unicode_escape", "surrogatepass").decode("ascii")
            for char in line
        )
    if limit is not None and len(line) > limit:
        return line[: max(limit - 1, 0)].rstrip() + "…"
    return line


def reason_of(result: Scored | Unscored | Failed, limit: int = 200) -> str:
    if result.status == "failed":
        return printable(f"{result.error_type}: {result.detail}", limit)
    if result.status == "unscored":
        return printable(result.reason, limit)
    lacking = _lacking(result.evidence)
    justification = result.verdict.get("justification")
    if isinstance(justification, str):
        return printable(f"{lacking} | {justification}" if lacking else justification, limit)
    rationale = result.verdict.get("rationale")
    if isinstance(rationale, list):
        if lacking:
            return printable(lacking, limit)
        return printable(", ".join(_short(str(line)) for line in rationale[:-1]) or str(rationale), limit)
    return ""


def _lacking(evidence: object) -> str:
    if not isinstance(evidence, dict):
        return ""
    for words, lists, name, upheld in _LACKING:
        found = [evidence.get(key) for key in lists]
        items = [one for part in found if isinstance(part, list) for one in part if isinstance(one, dict)]
        texts = [printable(str(one.get(name)), 80).rstrip(".") for one in items if not one.get(upheld)]
        if texts:
            more = f" and {len(texts) - MOST_ITEMS} more" if len(texts) > MOST_ITEMS else ""
            return f"{words}: {'; '.join(texts[:MOST_ITEMS])}{more}"
    return ""


def _short(line: str) -> str:
    """Shorten "Fact: 2 of 3 facts correctly matched." to "fact 2 of 3"."""
    name, _, text = line.partition(": ")
    counts = _COUNTS.match(text)
    return f"{name.lower()} {counts[0] if counts else text}"


def problems_of(error: ValidationError, whole: str, *, most: int) -> list[str]:
    """Return the first `most` problems of data, each with its path or `whole`, without quoting the data."""
    errors = error.errors(include_url=False, include_input=False, include_context=False)
    found = []
    for problem in errors[:most]:
        path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in problem["loc"])
        found.append(f"{path.lstrip('.') or whole}: {problem['msg'][:1].lower()}{problem['msg'][1:]}")
    return [*found, f"and {len(errors) - most} more"] if len(errors) > most else found


# Causes of failed connections

NO_DESCRIPTORS = (
    "this process has too many open files: raise its limit of file descriptors (ulimit -n, LimitNOFILE of a "
    "service) or lower judge.max_in_flight"
)
"""Shortage of this machine, which libraries report as a failure of the other side or of a file."""


def out_of_descriptors() -> bool:
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        return error.errno in {errno.EMFILE, errno.ENFILE}
    return False


def cause_of(error: BaseException) -> str:
    """Return the first cause, in words of the system or OpenSSL only: others quote what they received."""
    for _ in range(10):
        if error.__cause__ is None:
            break
        error = error.__cause__
    shortage = isinstance(error, OSError) and error.errno in {errno.EMFILE, errno.ENFILE}
    if shortage or out_of_descriptors():
        return NO_DESCRIPTORS
    name = type(error).__name__
    words = ""
    if isinstance(error, ssl.SSLCertVerificationError):
        words = error.verify_message
    elif isinstance(error, ssl.SSLError | socket.gaierror | socket.herror):
        words = (error.reason if isinstance(error, ssl.SSLError) else error.strerror) or ""
    elif isinstance(error, OSError) and isinstance(error.errno, int):
        words = os.strerror(error.errno)
    return f"{name}: {words}" if words else name
