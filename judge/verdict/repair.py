"""Asking the judge to repair a reply that does not hold. Pure.

A repair turn carries the judge's own reply and what is wrong with it after the request as it was, so that the
constant beginning stays cacheable. Only the last reply is shown: earlier ones were no better, and the
conversation stays bounded.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from judge.chat import ChatMessage, ChatRequest
from judge.errors import InvalidVerdictError

DEFAULT_REPAIR_ATTEMPTS: Final = 2
MAX_SHOWN_CHARS: Final = 8000
"""Of a reply to be repaired, this much is sent back; the middle is left out."""
MAX_KEPT_CHARS: Final = 1000
"""Of a reply that was not repaired, this much is kept on the result, from its end, where verdicts stand."""
MAX_PROBLEM_CHARS: Final = 900

_LEFT_OUT = "\n[... left out ...]\n"
_NOTHING = "(an empty reply)"
REPAIR_BEGINNING: Final = "Your reply cannot be used as it is."
"""How a repair turn begins."""
_ASK = (
    f"{REPAIR_BEGINNING} What is wrong with it:\n\n{{problem}}\n\n"
    "Judge the same data once more by the same instructions and give the whole reply again, with this "
    "repaired, and with "
    "nothing around it."
)


def repair_request(request: ChatRequest, reply: str, error: InvalidVerdictError) -> ChatRequest:
    """Build the request that asks for a repaired reply.

    Args:
        request: The request as it was first made.
        reply: The last reply to it.
        error: What is wrong with that reply.
    """
    shown = _both_ends(reply, MAX_SHOWN_CHARS)
    return replace(
        request,
        messages=(
            *request.messages,
            # Some chat templates refuse an empty turn, or two of the user's in a row.
            ChatMessage("assistant", shown if shown.strip() else _NOTHING),
            ChatMessage("user", _ASK.format(problem=error.detail[:MAX_PROBLEM_CHARS])),
        ),
    )


def not_mended(error: InvalidVerdictError, reply: str, *, attempts: int) -> InvalidVerdictError:
    """Say that a reply did not come to hold, with its raw text cut to a bound.

    Args:
        error: What is wrong with the last reply.
        reply: That reply.
        attempts: How often the judge was asked to repair it.
    """
    after = (
        "" if attempts == 0 else f" (after {attempts} repair {'attempt' if attempts == 1 else 'attempts'})"
    )
    kept = reply if len(reply) <= MAX_KEPT_CHARS else f"…{reply[1 - MAX_KEPT_CHARS :]}"
    return InvalidVerdictError(f"{error.detail[:MAX_PROBLEM_CHARS]}{after}; the reply: {kept}")


def _both_ends(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    half = (limit - len(_LEFT_OUT)) // 2
    return f"{text[:half]}{_LEFT_OUT}{text[-half:]}"
