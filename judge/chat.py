"""The edge to a judge model: what is asked, what comes back, and the one protocol between."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol

from schemas import Usage

Role = Literal["system", "user", "assistant"]

OFFLINE_MODEL: Final = "offline-rules-1"
"""The name in every result of the offline judge, which distinguishes it from a language model."""


@dataclass(frozen=True, slots=True)
class QuotaReport:
    """What an endpoint says about one of its limits; None where it does not say.

    Args:
        limit: Requests or tokens a minute.
        remaining: What is left of them.
        reset_seconds: Until all of them are there again.
    """

    limit: float | None = None
    remaining: float | None = None
    reset_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class RateLimits:
    """What an endpoint says about its limits."""

    requests: QuotaReport = QuotaReport()
    tokens: QuotaReport = QuotaReport()


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One turn of the conversation."""

    role: Role
    content: str


@dataclass(frozen=True, slots=True)
class ResponseSchema:
    """The JSON Schema that the reply must follow (strict mode: all keys required, no others)."""

    name: str
    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One call to the judge. The constant part comes first so that endpoints can cache the prefix."""

    messages: tuple[ChatMessage, ...]
    response_schema: ResponseSchema | None = None
    """None asks for plain text."""
    max_output_tokens: int = 4096
    temperature: float | None = None
    """Sent where the endpoint takes it; one among the parameters goes before."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Sampling parameters as the endpoint names them (temperature, seed, ...)."""
    embeds: bool = False
    """Compare the two messages by the vectors that the endpoint gives for them, in place of a completion: the
    reply's text is `{"cosine": 0.83, "dimensions": 1536}`."""


@dataclass(frozen=True, slots=True)
class ChatReply:
    """What the judge answered."""

    text: str
    model: str
    """The model that answered, by its own account."""
    usage: Usage
    seconds: float
    """Wall-clock time of the call."""
    limits: RateLimits | None = None
    """What the endpoint says about its limits, where it does."""


class ChatClient(Protocol):
    """A judge endpoint.

    Implementations: `judge.endpoint.openai_chat.OpenAIChat`, `judge.endpoint.scripted.ScriptedChat`.
    """

    @property
    def endpoint(self) -> str:
        """The endpoint's configured name."""

    @property
    def model(self) -> str:
        """The model that is asked."""

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Ask once.

        Raises:
            JudgeUnavailableError: The endpoint cannot answer now.
            JudgeConfigurationError: No call can succeed as configured.
            EventError: The endpoint refuses this request, or its reply is cut or refused.
        """

    async def close(self) -> None:
        """Release the connections."""
