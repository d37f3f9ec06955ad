"""What a sink is made of; a package adds one by a subclass of `Sink` as an entry point (docs/sinks.md)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Generic, Literal, Protocol, TypeVar

import aiohttp
import orjson
import structlog

from judge.text.printable import cause_of
from schemas import Failed, Result, Unscored
from streams.kafka.output import Output
from streams.settings.base import Configured, KindSection, Secret
from streams.settings.outputs import SinkSettings, WebSinkSettings
from streams.settings.tree import Settings

TIMEOUT_SECONDS: Final = 10.0
MAX_ANSWER_BYTES: Final = 4 * 1024 * 1024
MAX_EXPLANATION_CHARS: Final = 4_000
_AGAIN: Final = frozenset({401, 403, 408, 425, 429})
"""401 and 403, because credentials can be corrected without loss."""
_log = structlog.stdlib.get_logger(__name__)


class SinkDownError(Exception):
    """The receiver is down: the batch is sent again until it is accepted."""


class Deliverable(Protocol):
    """What is delivered: an evaluation or the notice of an incident."""

    @property
    def key(self) -> str:
        """An id that stays the same on a retry."""


ItemT = TypeVar("ItemT", bound=Deliverable)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A result in a form common to all receivers."""

    result: Result
    score: float | None
    """None if there is none, as for a forced verdict (missing input)."""
    label: str
    """The label, true or false for such metrics, else `scored`; or why there is no score."""
    explanation: str

    @classmethod
    def of(cls, result: Result) -> Evaluation:
        if isinstance(result, Failed):
            return cls(result, None, "failed", result.detail[:MAX_EXPLANATION_CHARS])
        verdict = result.verdict or {}
        reason = verdict.get("justification") or verdict.get("rationale") or ""
        text = "\n".join(map(str, reason)) if isinstance(reason, list) else str(reason)
        explanation = text[:MAX_EXPLANATION_CHARS]
        if isinstance(result, Unscored):
            return cls(result, None, f"unscored: {result.reason}", explanation)
        label = result.shown if isinstance(result.value, bool | str) else "scored"
        return cls(result, result.amount, label, explanation)

    @property
    def key(self) -> str:
        return self.result.result_id


@dataclass(frozen=True, slots=True)
class Opening:
    """What a sink is opened with: its name in the settings, all settings, and the worker's producer."""

    name: str
    settings: Settings
    env: Mapping[str, str]
    output: Output
    version: str
    now: Callable[[], float] = time.time

    def secret(self, secret: Secret | None, field: str = "secret") -> str | None:
        if secret is None:
            return None
        return secret.read(f"sinks.{self.name}.{field}", self.env).get_secret_value()


class Sink(Configured, Generic[ItemT]):
    """One receiver. Make `send` idempotent if the receiving system allows it: an item may come again."""

    Settings: ClassVar[type[KindSection]] = SinkSettings
    reads: Literal["verdicts", "incidents"] = "verdicts"
    batch: int = 100
    """Maximum items of a call of `send`."""
    linger_seconds: float = 0.5
    """Maximum time to collect a batch."""

    def __init__(self, settings: Any, opening: Opening) -> None:
        """Keep what it needs of its own settings; connect when it sends."""

    def wants(self, item: ItemT) -> bool:  # noqa: ARG002 - the general case
        """Return whether the receiver can represent an item; others are counted as skipped."""
        return True

    async def send(self, batch: Sequence[ItemT]) -> Mapping[str, str]:
        """Send items; return the reason of each refused one by key. SinkDownError: call it again."""
        raise NotImplementedError

    async def close(self) -> None:
        """Release what it holds; what was not delivered is read again after a restart."""


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    status: int
    body: bytes

    @property
    def refusal(self) -> str | None:
        """Why a request was refused; None if it was accepted."""
        if self.status < 300:
            return None
        # The answer's text may quote the verdict.
        _log.debug("a sink said [foreign text, cut]", said=self.body[:300].decode("utf-8", "replace"))
        return f"HTTP {self.status}"

    def json(self) -> Any:
        try:
            return orjson.loads(self.body)
        except orjson.JSONDecodeError:
            return None


class WebSink(Sink[ItemT]):
    Settings: ClassVar[type[KindSection]] = WebSinkSettings

    def __init__(self, settings: WebSinkSettings, opening: Opening) -> None:
        self._url = settings.url
        self._secret = opening.secret(settings.secret)
        self._version, self._now = opening.version, opening.now
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    def _authorization(self) -> dict[str, str]:
        return {} if self._secret is None else {"Authorization": f"Bearer {self._secret}"}

    async def _json(self, path: str, body: Any) -> HttpAnswer:
        headers = {"Content-Type": "application/json", **self._authorization()}
        return await self._call("POST", path, body=orjson.dumps(body), headers=headers)

    async def _call(
        self, method: str, path: str, *, body: bytes | None, headers: Mapping[str, str]
    ) -> HttpAnswer:
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=TIMEOUT_SECONDS))
        try:
            async with self._session.request(
                method, self._url + path, data=body, headers=headers, allow_redirects=False
            ) as response:
                answer = HttpAnswer(response.status, await response.content.read(MAX_ANSWER_BYTES))
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise SinkDownError(cause_of(error)) from error
        if answer.status >= 500 or answer.status in _AGAIN:
            raise SinkDownError(answer.refusal)
        return answer


def refuse_all(batch: Sequence[Deliverable], answer: HttpAnswer) -> dict[str, str]:
    why = answer.refusal
    return {} if why is None else dict.fromkeys((item.key for item in batch), why)
