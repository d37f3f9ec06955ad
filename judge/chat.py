"""Interface to a judge model: request, reply and client protocol."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol

from schemas import Usage

Role = Literal["system", "user", "assistant"]

OFFLINE_MODEL: Final = "offline-rules-1"


@dataclass(frozen=True, slots=True)
class RateLimits:
    """Limits of requests and tokens a minute that an endpoint reports; None: not reported."""

    requests: float | None = None
    tokens: float | None = None
    reset_seconds: float = 0.0
    """Time until a used-up limit is renewed; 0: none is used up, or it is not reported."""


@dataclass(frozen=True, slots=True)
class ChatMessage:
    role: Role
    content: str


@dataclass(frozen=True, slots=True)
class ResponseSchema:
    """The JSON Schema of the reply (strict mode)."""

    name: str
    schema: Mapping[str, Any] = field(hash=False)


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One call to the judge. The constant part comes first so that endpoints can cache the prefix."""

    messages: tuple[ChatMessage, ...]
    response_schema: ResponseSchema | None = None
    max_output_tokens: int = 4096
    temperature: float | None = None
    """Sent if the endpoint accepts it; overridden by `parameters`."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    embeds: bool = False
    """Request embeddings of the two messages; the reply is `{"cosine": 0.83, "dimensions": 1536}`."""
    fresh: bool = False
    """Use a new connection: an earlier reply may have come on the wrong one."""


@dataclass(frozen=True, slots=True)
class ChatReply:
    """A judge's reply, with the model that it names and the wall-clock time of the call."""

    text: str
    model: str
    usage: Usage
    seconds: float
    limits: RateLimits | None = None
    system_fingerprint: str | None = None
    """The provider's name of what served the model, such as a build."""
    price_factor: float = 1.0
    """Share of the usual price that the call cost."""


class ChatClient(Protocol):
    """A judge endpoint, such as `judge.endpoints.openai_chat.OpenAIChat`."""

    @property
    def endpoint(self) -> str: ...

    @property
    def model(self) -> str: ...

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Send one request.

        Raises:
            JudgeUnavailableError: The endpoint cannot answer now.
            JudgeConfigurationError: No call can succeed as configured.
            EventError: The endpoint refuses this request, or its reply is truncated or refused.
        """

    async def close(self) -> None: ...
