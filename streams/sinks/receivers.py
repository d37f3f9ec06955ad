"""The receivers' protocols: the requests to each, and the meaning of its answers.

- Langfuse: `POST /api/public/scores` with a list; the same id updates the score; 207 lists the refused ones.
- Phoenix: `POST /v1/span_annotations`; the same span, name and identifier update the annotation.
- MLflow: `POST /api/3.0/mlflow/traces/tr-<trace id>/assessments`, one verdict per call; it is not idempotent,
  so existing ones are looked up first.
- A webhook receives JSON, signed with HMAC-SHA256 over time and body.
- A Collector receives OTLP, over HTTP or from a topic: a verdict as a log event, linked to the judged span,
  and the judging as a trace of its own, with attributes of `semantic-conventions-genai` (in development).
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import orjson
from opentelemetry.proto.logs.v1.logs_pb2 import SEVERITY_NUMBER_INFO, SEVERITY_NUMBER_WARN, LogsData
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData
from pydantic import Field

from schemas import Failed, JudgeCall, Result, Scored
from schemas.result import RESULT_ATTRIBUTE
from streams.errors import TooLargeError
from streams.settings.outputs import SinkSecret, SinkSettings, WebSinkSettings
from streams.sinks.base import Evaluation, HttpAnswer, ItemT, Opening, Sink, WebSink, refuse_all
from streams.sinks.incidents import Notice

PROTOBUF: Final = "application/x-protobuf"
EVENT_NAME: Final = "gen_ai.evaluation.result"
SCOPE: Final = "judgestream"
_VALUES: Final = {str: "string_value", int: "int_value", float: "double_value"}


def metadata(result: Result) -> dict[str, str]:
    """Return a verdict's metadata for receivers: its weight and its judge."""
    replay = {} if result.replay_id is None else {"judgestream.replay_id": result.replay_id}
    return {
        RESULT_ATTRIBUTE: result.result_id,
        "judgestream.event_id": result.event_id,
        "judgestream.sampling.probability": f"{result.sampling.probability:.6g}",
        "judgestream.evaluator.fingerprint": result.evaluator.fingerprint,
        "judgestream.evaluator.model": result.evaluator.model,
        **replay,
    }


def log_request(evaluations: Iterable[Evaluation], *, version: str) -> bytes:
    """Return an ExportLogsServiceRequest in Protobuf, for a Collector's topic or OTLP/HTTP."""
    request = LogsData()
    of_service = request.resource_logs.add()
    of_scope = _of_us(of_service, of_service.scope_logs, version)
    for evaluation in evaluations:
        result, record = evaluation.result, of_scope.log_records.add()
        record.time_unix_nano = record.observed_time_unix_nano = _nanoseconds(result.times.judged_at)
        is_failed = isinstance(result, Failed)
        record.severity_number = SEVERITY_NUMBER_WARN if is_failed else SEVERITY_NUMBER_INFO
        record.event_name = EVENT_NAME
        shown = evaluation.label if evaluation.score is None else f"{evaluation.score:g}"
        record.body.string_value = f"evaluation: {result.metric}={shown}"
        # Omit ids of another form: a Collector refuses the whole request because of one.
        record.trace_id, record.span_id = _identifier(result.trace_id, 32), _identifier(result.span_id, 16)
        _put(record.attributes, _attributes(evaluation))
    return bytes(request.SerializeToString())


def trace_request(evaluations: Iterable[Evaluation], *, version: str) -> bytes:
    """Return an ExportTraceServiceRequest: spans of the judging, with those of the model's call if any."""
    request = TracesData()
    of_service = request.resource_spans.add()
    of_scope = _of_us(of_service, of_service.scope_spans, version)
    for evaluation in evaluations:
        _write_judging(of_scope.spans.add(), evaluation)
        judge, seconds = evaluation.result.judge, evaluation.result.times.judge_seconds
        if judge is not None and not judge.cached and seconds is not None:
            _write_call(of_scope.spans.add(), evaluation, judge, seconds)
    return bytes(request.SerializeToString())


def _of_us(of_service: Any, scopes: Any, version: str) -> Any:
    _put(of_service.resource.attributes, {"service.name": SCOPE, "service.version": version})
    of_scope = scopes.add()
    of_scope.scope.name, of_scope.scope.version = SCOPE, version
    return of_scope


def _write_judging(span: Any, evaluation: Evaluation) -> None:
    result = evaluation.result
    span.trace_id, span.span_id = bytes.fromhex(result.result_id), bytes.fromhex(result.result_id[:16])
    span.name, span.kind = f"evaluate {evaluation.result.metric}", span.SPAN_KIND_INTERNAL
    span.end_time_unix_nano = _nanoseconds(result.times.judged_at)
    span.start_time_unix_nano = min(_nanoseconds(result.times.sampled_at), span.end_time_unix_nano)
    if result.trace_id is not None and result.span_id is not None:
        link = span.links.add()
        link.trace_id, link.span_id = _identifier(result.trace_id, 32), _identifier(result.span_id, 16)
    _put(span.attributes, _attributes(evaluation))
    if isinstance(result, Failed):
        span.status.code = span.status.STATUS_CODE_ERROR


def _write_call(span: Any, evaluation: Evaluation, judge: JudgeCall, seconds: float) -> None:
    result = evaluation.result
    span.trace_id, span.span_id = bytes.fromhex(result.result_id), bytes.fromhex(result.result_id[16:])
    span.parent_span_id = bytes.fromhex(result.result_id[:16])
    span.name, span.kind = _valid(f"chat {judge.model_asked}"), span.SPAN_KIND_CLIENT
    span.end_time_unix_nano = _nanoseconds(result.times.judged_at)
    span.start_time_unix_nano = span.end_time_unix_nano - round(seconds * 1e9)
    attributes: dict[str, str | float | None] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",  # the convention's name for compatible endpoints
        "gen_ai.request.model": judge.model_asked,
        "gen_ai.response.model": judge.model_answered,
        "gen_ai.usage.input_tokens": result.usage.input_tokens,
        "gen_ai.usage.cache_read.input_tokens": result.usage.cached_tokens,
        "gen_ai.usage.output_tokens": result.usage.output_tokens,
        "judgestream.endpoint": judge.endpoint,
        "judgestream.tries": judge.tries,
        "judgestream.cost_usd": result.cost_usd,
    }
    _put(span.attributes, attributes)


def _attributes(evaluation: Evaluation) -> dict[str, str | float | None]:
    """Return a verdict's attributes: without a score if it failed, and with a label alone if it has none."""
    result, score = evaluation.result, evaluation.score
    numeric = isinstance(result, Scored) and not isinstance(result.value, bool | str)
    return {
        "gen_ai.evaluation.name": result.metric,
        "gen_ai.evaluation.score.value": None if score is None else float(score),
        "error.type": result.error_type if isinstance(result, Failed) else None,
        "gen_ai.evaluation.score.label": None if numeric or isinstance(result, Failed) else evaluation.label,
        "gen_ai.evaluation.explanation": evaluation.explanation or None,
        **metadata(result),
        "judgestream.sampling.probability": float(f"{result.sampling.probability:.6g}"),
        **{f"judgestream.label.{name}": value for name, value in result.labels.items()},
    }


def _nanoseconds(at: datetime) -> int:
    return 1000 * round(at.timestamp() * 1e6)  # multiplying by 1e9 exceeds a float's precision


def _identifier(value: str | None, digits: int) -> bytes:
    return bytes.fromhex(value) if value is not None and len(value) == digits else b""


def _put(attributes: Any, values: Mapping[str, str | float | None]) -> None:
    for name, value in values.items():
        if value is not None:
            shown = _valid(value) if isinstance(value, str) else value
            setattr(attributes.add(key=name).value, _VALUES[type(value)], shown)


def _valid(text: str) -> str:
    """Replace surrogates, which UTF-8 cannot hold."""
    return text.encode("utf-8", "replace").decode()


class SecretSettings(WebSinkSettings):
    secret: SinkSecret


class LangfuseSettings(SecretSettings):
    public_key: str = Field(min_length=1)
    """Langfuse's public key."""


class Langfuse(WebSink[Evaluation]):
    Settings = LangfuseSettings

    def __init__(self, settings: LangfuseSettings, opening: Opening) -> None:
        super().__init__(settings, opening)
        self._public_key = settings.public_key

    def wants(self, item: Evaluation) -> bool:
        return item.result.trace_id is not None and item.score is not None

    def _authorization(self) -> dict[str, str]:
        pair = base64.b64encode(f"{self._public_key}:{self._secret}".encode()).decode()
        return {"Authorization": f"Basic {pair}"}

    async def send(self, batch: Sequence[Evaluation]) -> Mapping[str, str]:
        scores = [
            {
                "id": one.key,
                "traceId": one.result.trace_id,
                "observationId": one.result.span_id,
                "name": one.result.metric,
                "value": one.score,
                "dataType": "NUMERIC",
                "comment": one.explanation,
                "metadata": metadata(one.result),
                "timestamp": one.result.times.judged_at.isoformat(),
            }
            for one in batch
        ]
        answer = await self._json("/api/public/scores", scores)
        if answer.status != 207:
            return refuse_all(batch, answer)
        content = answer.json()
        errors = content.get("errors") if isinstance(content, dict) else None
        refused: dict[str, str] = {}
        for error in errors if isinstance(errors, list) else ():
            if isinstance(error, dict):
                index, name, status = (error.get(field) for field in ("index", "id", "status"))
                if isinstance(index, int) and 0 <= index < len(batch):
                    name = batch[index].key
                if isinstance(name, str):
                    refused[name] = (
                        f"status {status}" if isinstance(status, int) else "an error of the receiver"
                    )
        return refused


class Phoenix(WebSink[Evaluation]):
    def wants(self, item: Evaluation) -> bool:
        return item.result.span_id is not None

    async def send(self, batch: Sequence[Evaluation]) -> Mapping[str, str]:
        """Send a list, without sync=true: with it, one unknown span would refuse all."""
        data = [
            {
                "span_id": evaluation.result.span_id,
                "name": evaluation.result.metric,
                "annotator_kind": "LLM",
                "identifier": evaluation.result.replay_id or "judgestream",
                "result": {
                    "score": evaluation.score,
                    "label": evaluation.label,
                    "explanation": evaluation.explanation or None,
                },
                "metadata": metadata(evaluation.result),
            }
            for evaluation in batch
        ]
        return refuse_all(batch, await self._json("/v1/span_annotations?sync=false", {"data": data}))


class Mlflow(WebSink[Evaluation]):
    def wants(self, item: Evaluation) -> bool:
        return item.result.trace_id is not None

    async def send(self, batch: Sequence[Evaluation]) -> Mapping[str, str]:
        """Send one after the other, except existing ones."""
        refused: dict[str, str] = {}
        for evaluation in batch:
            trace = f"/api/3.0/mlflow/traces/tr-{evaluation.result.trace_id}"
            answer = await self._call("GET", trace, body=None, headers=self._authorization())
            if answer.refusal is None and not _holds(answer.json(), evaluation.key):
                answer = await self._json(f"{trace}/assessments", {"assessment": _assessment(evaluation)})
            refused |= refuse_all([evaluation], answer)
        return refused


def _assessment(evaluation: Evaluation) -> dict[str, Any]:
    result = evaluation.result
    feedback: dict[str, Any] = {"value": evaluation.score}
    if evaluation.score is None:
        code = result.error_type if isinstance(result, Failed) else evaluation.label
        feedback["error"] = {"error_code": code, "error_message": evaluation.explanation or evaluation.label}
    at = result.times.judged_at.isoformat()
    return {
        "assessment_name": result.metric,
        "trace_id": f"tr-{result.trace_id}",
        "span_id": result.span_id,
        "source": {"source_type": "LLM_JUDGE", "source_id": f"judgestream/{result.evaluator.model}"},
        "create_time": at,
        "last_update_time": at,
        "feedback": feedback,
        "rationale": evaluation.explanation,
        "metadata": metadata(result),
    }


def _holds(answer: Any, result_id: str) -> bool:
    """Return whether a trace's JSON contains an assessment with this result's id."""
    if isinstance(answer, list):
        return any(_holds(item, result_id) for item in answer)
    if not isinstance(answer, dict):
        return False
    about = answer.get("metadata")
    if isinstance(about, dict) and about.get(RESULT_ATTRIBUTE) == result_id:
        return True
    return any(_holds(answer.get(name), result_id) for name in ("trace", "trace_info", "info", "assessments"))


class OtlpHttp(WebSink[Evaluation]):
    write = staticmethod(log_request)

    async def send(self, batch: Sequence[Evaluation]) -> Mapping[str, str]:
        body = self.write(batch, version=self._version)
        headers = {"Content-Type": PROTOBUF, **self._authorization()}
        return refuse_all(batch, await self._call("POST", "", body=body, headers=headers))


class OtlpSpans(OtlpHttp):
    """Spans of the judge's own calls to a Collector."""

    write = staticmethod(trace_request)


class OtlpTopic(Sink[Evaluation]):
    """A topic of log events: a record per verdict, keyed by trace id as in the Collector's exporter."""

    linger_seconds = 0

    def __init__(self, _: SinkSettings, opening: Opening) -> None:
        self._output, self._version = opening.output, opening.version
        self._topic = opening.settings.topics.evaluations

    async def send(self, batch: Sequence[Evaluation]) -> Mapping[str, str]:
        """Write verdicts; those that are too large for the topic are refused."""
        refused: dict[str, str] = {}

        async def write(one: Evaluation) -> None:
            key = None if one.result.trace_id is None else one.result.trace_id.encode()
            value = log_request([one], version=self._version)
            headers = (("content-type", PROTOBUF.encode()),)
            try:
                await self._output.write(self._topic, key=key, value=value, headers=headers)
            except TooLargeError as error:
                refused[one.key] = str(error)

        await asyncio.gather(*map(write, batch))
        return refused


class SignedSink(WebSink[ItemT]):
    """JSON to your own URL, with an `sha256=` HMAC over `<time>.<body>`, against replays."""

    Settings = SecretSettings

    async def _post(self, body: bytes) -> HttpAnswer:
        moment = str(int(self._now()))
        signature = hmac.new((self._secret or "").encode(), f"{moment}.".encode() + body, hashlib.sha256)
        headers = {
            "Content-Type": "application/json",
            "X-Judgestream-Timestamp": moment,
            "X-Judgestream-Signature": f"sha256={signature.hexdigest()}",
        }
        return await self._call("POST", "", body=body, headers=headers)


class Webhook(SignedSink[Evaluation]):
    async def send(self, batch: Sequence[Evaluation]) -> Mapping[str, str]:
        results = b",".join(evaluation.result.model_dump_json().encode() for evaluation in batch)
        return refuse_all(batch, await self._post(b'{"results":[' + results + b"]}"))


class IncidentWebhook(SignedSink[Notice]):
    reads = "incidents"
    batch = 1
    linger_seconds = 0

    async def send(self, batch: Sequence[Notice]) -> Mapping[str, str]:
        (notice,) = batch
        return refuse_all(batch, await self._post(orjson.dumps(notice.as_json())))
