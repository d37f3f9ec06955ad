"""Ask the judge to repair an invalid reply. Pure.

A repair turn appends the judge's reply and its problem to the unchanged request, so that the prompt prefix
stays cacheable. Only the last reply is included, so that the conversation stays bounded.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from judge.chat import ChatMessage, ChatRequest
from judge.errors import InvalidVerdictError

DEFAULT_REPAIR_ATTEMPTS: Final = 2
MAX_SHOWN_CHARS: Final = 8000
"""Limit of the reply in a repair turn; the middle is left out."""
MAX_KEPT_CHARS: Final = 1000
"""Limit of an unrepaired reply in the result; its end is kept, where verdicts are."""
MAX_PROBLEM_CHARS: Final = 900

_LEFT_OUT = "\n[... left out ...]\n"
_NOTHING = "(an empty reply)"
REPAIR_BEGINNING: Final = "Your reply cannot be used as it is."
"""First sentence of a repair turn."""
_ASK = (
    f"{REPAIR_BEGINNING} What is wrong with it:\n\n{{problem}}\n\n"
    "Judge the same data once more by the same instructions and give the whole reply again, with this "
    "repaired, and with "
    "nothing around it."
)


def repair_request(request: ChatRequest, reply: str, error: InvalidVerdictError) -> ChatRequest:
    """Build the request that asks for a repaired reply.

    Args:
        request: The original request.
        reply: The last reply.
        error: What is wrong with that reply.
    """
    shown = _both_ends(reply, MAX_SHOWN_CHARS)
    return replace(
        request,
        messages=(
            *request.messages,
            # Some chat templates refuse an empty turn, or two consecutive user turns.
            ChatMessage("assistant", shown if shown.strip() else _NOTHING),
            ChatMessage("user", _ASK.format(problem=error.detail[:MAX_PROBLEM_CHARS])),
        ),
    )


def not_mended(error: InvalidVerdictError, reply: str, *, attempts: int) -> InvalidVerdictError:
    """Return the error for a reply that stayed invalid, with its truncated text.

    Args:
        error: What is wrong with the last reply.
        reply: The last reply.
        attempts: Number of repair turns.
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
