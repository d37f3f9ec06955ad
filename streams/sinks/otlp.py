"""A verdict as OpenTelemetry's log event `gen_ai.evaluation.result`, linked to the judged span.

The judge's work becomes the spans of a separate trace. Pure.

Attributes are those of `semantic-conventions-genai` (in development): `gen_ai.evaluation.name`,
`.score.value`, `.score.label`, `.explanation`, and `error.type` if judging failed; the project's own are
under `judgestream.`. A failed verdict has no score, an unscored one a label and no score. Span ids are
derived from the result's id: the same verdict gives the same spans.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final

from schemas import Failed, JudgeCall, Scored
from streams.intake.reading.otlp.requests.messages import Logs, OwnTraces
from streams.sinks.evaluation import Evaluation, metadata

EVENT_NAME: Final = "gen_ai.evaluation.result"
SCOPE: Final = "judgestream"
_INFO: Final = 9
_WARN: Final = 13
_INTERNAL: Final = 1
_CLIENT: Final = 3
_ERROR: Final = 2


def log_request(evaluations: Iterable[Evaluation], *, version: str) -> bytes:
    """Return an ExportLogsServiceRequest in Protobuf, for a Collector's topic or OTLP/HTTP.

    Args:
        evaluations: The verdicts.
        version: The version of judgestream.
    """
    request = Logs()
    of_service = request.resource_logs.add()
    of_scope = _of_us(of_service, of_service.scope_logs, version)
    for one in evaluations:
        _write(of_scope.log_records.add(), one)
    return bytes(request.SerializeToString())


def trace_request(evaluations: Iterable[Evaluation], *, version: str) -> bytes:
    """Return an ExportTraceServiceRequest in Protobuf with the judge's work for each verdict.

    A span of the judging is linked to the judged span and contains a span of the model's call, if any.

    Args:
        evaluations: The verdicts.
        version: The version of judgestream.
    """
    request = OwnTraces()
    of_service = request.resource_spans.add()
    of_scope = _of_us(of_service, of_service.scope_spans, version)
    for one in evaluations:
        _write_judging(of_scope.spans.add(), one)
        judge, seconds = one.result.judge, one.result.times.judge_seconds
        if judge is not None and not judge.cached and seconds is not None:
            _write_call(of_scope.spans.add(), one, judge, seconds)
    return bytes(request.SerializeToString())


def _of_us(of_service: Any, scopes: Any, version: str) -> Any:
    """Set service and scope to ours; return the scope."""
    _put(of_service.resource.attributes, "service.name", SCOPE)
    _put(of_service.resource.attributes, "service.version", version)
    of_scope = scopes.add()
    of_scope.scope.name, of_scope.scope.version = SCOPE.encode(), version.encode()
    return of_scope


def _write_judging(span: Any, one: Evaluation) -> None:
    result = one.result
    span.trace_id, span.span_id = bytes.fromhex(result.result_id), bytes.fromhex(result.result_id[:16])
    span.name, span.kind = f"evaluate {one.name}".encode(), _INTERNAL
    span.end_time_unix_nano = _nanoseconds(result.times.judged_at)
    span.start_time_unix_nano = min(_nanoseconds(result.times.sampled_at), span.end_time_unix_nano)
    if result.trace_id is not None and result.span_id is not None:
        link = span.links.add()
        link.trace_id, link.span_id = _identifier(result.trace_id, 32), _identifier(result.span_id, 16)
    _put_verdict(span.attributes, one)
    if isinstance(result, Failed):
        span.status.code = _ERROR


def _write_call(span: Any, one: Evaluation, judge: JudgeCall, seconds: float) -> None:
    result = one.result
    span.trace_id, span.span_id = bytes.fromhex(result.result_id), bytes.fromhex(result.result_id[16:])
    span.parent_span_id = bytes.fromhex(result.result_id[:16])
    span.name, span.kind = f"chat {judge.model_asked}".encode("utf-8", "replace"), _CLIENT
    span.end_time_unix_nano = _nanoseconds(result.times.judged_at)
    span.start_time_unix_nano = span.end_time_unix_nano - round(seconds * 1e9)
    put = span.attributes
    _put(put, "gen_ai.operation.name", "chat")
    _put(put, "gen_ai.provider.name", "openai")  # the convention's name for compatible endpoints
    _put(put, "gen_ai.request.model", judge.model_asked)
    _put(put, "gen_ai.response.model", judge.model_answered)
    _put(put, "gen_ai.usage.input_tokens", result.usage.input_tokens)
    _put(put, "gen_ai.usage.cache_read.input_tokens", result.usage.cached_tokens)
    _put(put, "gen_ai.usage.output_tokens", result.usage.output_tokens)
    _put(put, "judgestream.endpoint", judge.endpoint)
    _put(put, "judgestream.tries", judge.tries)
    if result.cost_usd is not None:
        _put(put, "judgestream.cost_usd", result.cost_usd)


def _write(record: Any, one: Evaluation) -> None:
    result = one.result
    at = _nanoseconds(result.times.judged_at)
    record.time_unix_nano = record.observed_time_unix_nano = at
    record.severity_number = _WARN if isinstance(result, Failed) else _INFO
    record.event_name = EVENT_NAME.encode()
    shown = one.label if one.score is None else f"{one.score:g}"
    record.body.string_value = f"evaluation: {one.name}={shown}".encode()
    # Omit ids of another form: a Collector refuses the whole request because of one.
    record.trace_id = _identifier(result.trace_id, 32)
    record.span_id = _identifier(result.span_id, 16)
    _put_verdict(record.attributes, one)


def _put_verdict(put: Any, one: Evaluation) -> None:
    result = one.result
    _put(put, "gen_ai.evaluation.name", one.name)
    if one.score is not None:
        _put(put, "gen_ai.evaluation.score.value", float(one.score))
    if isinstance(result, Failed):
        _put(put, "error.type", result.error_type)
    elif not isinstance(result, Scored) or isinstance(result.value, bool | str):
        _put(put, "gen_ai.evaluation.score.label", one.label)
    if one.explanation:
        _put(put, "gen_ai.evaluation.explanation", one.explanation)
    for name, value in metadata(result).items():
        _put(put, name, float(value) if name == "judgestream.sampling.probability" else value)
    for name, value in result.labels.items():
        _put(put, f"judgestream.label.{name}", value)


def _nanoseconds(at: datetime) -> int:
    return 1000 * round(at.timestamp() * 1e6)  # multiplying by 1e9 exceeds a float's precision


def _identifier(value: str | None, digits: int) -> bytes:
    return bytes.fromhex(value) if value is not None and len(value) == digits else b""


def _put(attributes: Any, name: str, value: str | float) -> None:
    pair = attributes.add()
    pair.key = name.encode()
    if isinstance(value, str):
        pair.value.string_value = value.encode("utf-8", "replace")
    elif isinstance(value, int):
        pair.value.int_value = value
    else:
        pair.value.double_value = value
