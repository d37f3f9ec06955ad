"""The receivers' protocols: the requests to each, and the meaning of its answers.

- Langfuse: `POST /api/public/scores` with a list; the same id updates the score; 207 lists the refused ones.
- Phoenix: `POST /v1/span_annotations`; the same span, name and identifier update the annotation.
- MLflow: `POST /api/3.0/mlflow/traces/tr-<trace id>/assessments`, one verdict per call; it is not idempotent,
  so existing ones are looked up first.
- A webhook receives JSON, signed with HMAC-SHA256 over time and body.
"""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import orjson
import structlog

from schemas import Failed
from streams.intake.reading.otlp.families import RESULT_ID
from streams.sinks.evaluation import Evaluation, metadata
from streams.sinks.signature import signed_headers

_log = structlog.stdlib.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP answer."""

    status: int
    body: bytes

    def json(self) -> Any:
        """The body as JSON; None if it is not JSON."""
        try:
            return orjson.loads(self.body)
        except orjson.JSONDecodeError:
            return None


Call = Callable[..., Awaitable[Answer]]
"""`call(method, path, body=bytes | None, headers={...})`; raises SinkDownError if a retry may help."""


class SinkDownError(Exception):
    """The receiver is down; retry until it accepts requests."""


class Receiver(Protocol):
    """One receiver's protocol."""

    def wants(self, one: Evaluation) -> bool:
        """Return whether the receiver can represent a verdict."""

    async def send(self, call: Call, batch: Sequence[Evaluation]) -> Mapping[str, str]:
        """Send verdicts; return the reason of each refused one by result id."""


def refusal(answer: Answer) -> str:
    """Describe a refusal. Its text may quote the verdict, so it is logged at level debug only."""
    _log.debug("a sink said [foreign text, cut]", said=answer.body[:300].decode("utf-8", "replace"))
    return f"HTTP {answer.status}"


def _json_headers(**headers: str) -> dict[str, str]:
    return {"Content-Type": "application/json", **headers}


def _all_refused(batch: Sequence[Evaluation], answer: Answer) -> dict[str, str]:
    return {one.result.result_id: refusal(answer) for one in batch}


@dataclass(frozen=True, slots=True)
class OtlpHttp:
    """A Collector's OTLP/HTTP receiver: of log events, or of spans."""

    write: Callable[[Sequence[Evaluation]], bytes]
    token: str | None = None

    def wants(self, _: Evaluation) -> bool:
        """Accept every verdict, also without a span."""
        return True

    async def send(self, call: Call, batch: Sequence[Evaluation]) -> Mapping[str, str]:
        """Send one request."""
        headers = {"Content-Type": "application/x-protobuf"} | _bearer(self.token)
        answer = await call("POST", "", body=self.write(batch), headers=headers)
        return {} if answer.status < 300 else _all_refused(batch, answer)


@dataclass(frozen=True, slots=True)
class Langfuse:
    """Scores."""

    public_key: str
    secret_key: str

    def wants(self, one: Evaluation) -> bool:
        """Accept verdicts with a trace and a score."""
        return one.result.trace_id is not None and one.score is not None

    async def send(self, call: Call, batch: Sequence[Evaluation]) -> Mapping[str, str]:
        """Send a list; a 207 lists the refused ones."""
        pair = base64.b64encode(f"{self.public_key}:{self.secret_key}".encode()).decode()
        body = orjson.dumps([self._score(one) for one in batch])
        answer = await call(
            "POST", "/api/public/scores", body=body, headers=_json_headers(Authorization=f"Basic {pair}")
        )
        if answer.status == 207:
            return self._refused(batch, answer)
        return {} if answer.status < 300 else _all_refused(batch, answer)

    @staticmethod
    def _refused(batch: Sequence[Evaluation], answer: Answer) -> dict[str, str]:
        said = answer.json()
        errors = said.get("errors") if isinstance(said, dict) else None
        refused: dict[str, str] = {}
        for error in errors if isinstance(errors, list) else ():
            if not isinstance(error, dict):
                continue
            index, name = error.get("index"), error.get("id")
            if isinstance(index, int) and 0 <= index < len(batch):
                name = batch[index].result.result_id
            if isinstance(name, str):
                status = error.get("status")
                refused[name] = f"status {status}" if isinstance(status, int) else "an error of the receiver"
        return refused

    @staticmethod
    def _score(one: Evaluation) -> dict[str, Any]:
        result = one.result
        return {
            "id": result.result_id,
            "traceId": result.trace_id,
            "observationId": result.span_id,
            "name": one.name,
            "value": one.score,
            "dataType": "NUMERIC",
            "comment": one.explanation,
            "metadata": metadata(result),
            "timestamp": result.times.judged_at.isoformat(),
        }


@dataclass(frozen=True, slots=True)
class Phoenix:
    """Span annotations."""

    token: str | None = None

    def wants(self, one: Evaluation) -> bool:
        """Accept verdicts with a span."""
        return one.result.span_id is not None

    async def send(self, call: Call, batch: Sequence[Evaluation]) -> Mapping[str, str]:
        """Send a list, without sync=true: with it, one unknown span would refuse all."""
        data = [
            {
                "span_id": one.result.span_id,
                "name": one.name,
                "annotator_kind": "LLM",
                "identifier": "judgestream" if one.result.replay_id is None else one.result.replay_id,
                "result": {"score": one.score, "label": one.label, "explanation": one.explanation or None},
                "metadata": metadata(one.result),
            }
            for one in batch
        ]
        headers = _json_headers(**_bearer(self.token))
        answer = await call(
            "POST", "/v1/span_annotations?sync=false", body=orjson.dumps({"data": data}), headers=headers
        )
        return {} if answer.status < 300 else _all_refused(batch, answer)


@dataclass(frozen=True, slots=True)
class Mlflow:
    """Assessments of traces."""

    token: str | None = None

    def wants(self, one: Evaluation) -> bool:
        """Accept verdicts with a trace."""
        return one.result.trace_id is not None

    async def send(self, call: Call, batch: Sequence[Evaluation]) -> Mapping[str, str]:
        """Send one after the other, except existing ones."""
        refused: dict[str, str] = {}
        for one in batch:
            why = await self._send_one(call, one)
            if why is not None:
                refused[one.result.result_id] = why
        return refused

    async def _send_one(self, call: Call, one: Evaluation) -> str | None:
        trace = f"/api/3.0/mlflow/traces/tr-{one.result.trace_id}"
        headers = _json_headers(**_bearer(self.token))
        known = await call("GET", trace, body=None, headers=headers)
        if known.status >= 400:
            return refusal(known)
        if _holds(known.json(), one.result.result_id):
            return None
        body = orjson.dumps({"assessment": self._assessment(one)})
        answer = await call("POST", f"{trace}/assessments", body=body, headers=headers)
        return None if answer.status < 300 else refusal(answer)

    @staticmethod
    def _assessment(one: Evaluation) -> dict[str, Any]:
        result = one.result
        feedback: dict[str, Any] = {"value": one.score}
        if one.score is None:
            code = result.error_type if isinstance(result, Failed) else one.label
            feedback = {
                "value": None,
                "error": {"error_code": code, "error_message": one.explanation or one.label},
            }
        at = result.times.judged_at.isoformat()
        return {
            "assessment_name": one.name,
            "trace_id": f"tr-{result.trace_id}",
            "span_id": result.span_id,
            "source": {"source_type": "LLM_JUDGE", "source_id": f"judgestream/{result.evaluator.model}"},
            "create_time": at,
            "last_update_time": at,
            "feedback": feedback,
            "rationale": one.explanation,
            "metadata": metadata(result),
        }


def _holds(answer: Any, result_id: str) -> bool:
    """Return whether a trace's JSON contains an assessment with this result's id."""
    if isinstance(answer, dict):
        own = answer.get("metadata")
        if isinstance(own, dict) and own.get(RESULT_ID) == result_id:
            return True
        return any(
            _holds(answer.get(name), result_id) for name in ("trace", "trace_info", "info", "assessments")
        )
    return isinstance(answer, list) and any(_holds(item, result_id) for item in answer)


@dataclass(frozen=True, slots=True)
class Webhook:
    """Sends JSON to your own URL."""

    secret: str
    now: Callable[[], float]

    def wants(self, _: Evaluation) -> bool:
        """Accept every verdict."""
        return True

    async def send(self, call: Call, batch: Sequence[Evaluation]) -> Mapping[str, str]:
        """Send a list of results, signed `sha256=` HMAC over `<time>.<body>` against a later replay."""
        body = b'{"results":[' + b",".join(one.result.model_dump_json().encode() for one in batch) + b"]}"
        headers = signed_headers(self.secret, body, at=self.now())
        answer = await call("POST", "", body=body, headers=headers)
        return {} if answer.status < 300 else _all_refused(batch, answer)


def _bearer(token: str | None) -> dict[str, str]:
    return {} if token is None else {"Authorization": f"Bearer {token}"}
