"""A verdict as an OpenTelemetry log event, `gen_ai.evaluation.result`, beside the span that it is about.

Pure.

Attributes are those of `semantic-conventions-genai` (in development): `gen_ai.evaluation.name`,
`.score.value`, `.score.label`, `.explanation`, and `error.type` where judging failed; the project's own are
under `judgestream.`. A failed verdict has no score, an unscored one a label and no score.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from schemas import Failed, Scored
from streams.intake.reading.otlp.requests.messages import Logs
from streams.sinks.evaluation import Evaluation, metadata

EVENT_NAME: Final = "gen_ai.evaluation.result"
SCOPE: Final = "judgestream"
_INFO: Final = 9
_WARN: Final = 13


def log_request(evaluations: Iterable[Evaluation], *, version: str) -> bytes:
    """Write an ExportLogsServiceRequest in Protobuf: for a topic that a Collector reads, and for OTLP/HTTP.

    Args:
        evaluations: The verdicts.
        version: Of judgestream.
    """
    request = Logs()
    of_service = request.resource_logs.add()
    _put(of_service.resource.attributes, "service.name", SCOPE)
    _put(of_service.resource.attributes, "service.version", version)
    of_scope = of_service.scope_logs.add()
    of_scope.scope.name, of_scope.scope.version = SCOPE.encode(), version.encode()
    for one in evaluations:
        _write(of_scope.log_records.add(), one)
    return bytes(request.SerializeToString())


def _write(record: Any, one: Evaluation) -> None:
    result = one.result
    at = 1000 * round(result.times.judged_at.timestamp() * 1e6)  # 1e9 is beyond a float's digits
    record.time_unix_nano = record.observed_time_unix_nano = at
    record.severity_number = _WARN if isinstance(result, Failed) else _INFO
    record.event_name = EVENT_NAME.encode()
    shown = one.label if one.score is None else f"{one.score:g}"
    record.body.string_value = f"evaluation: {one.name}={shown}".encode()
    # An id of another form is no OTLP id: a Collector refuses the whole request for it.
    record.trace_id = _identifier(result.trace_id, 32)
    record.span_id = _identifier(result.span_id, 16)
    put = record.attributes
    _put(put, "gen_ai.evaluation.name", one.name)
    if one.score is not None:
        _put(put, "gen_ai.evaluation.score.value", one.score)
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


def _identifier(value: str | None, digits: int) -> bytes:
    return bytes.fromhex(value) if value is not None and len(value) == digits else b""


def _put(attributes: Any, name: str, value: str | float) -> None:
    pair = attributes.add()
    pair.key = name.encode()
    if isinstance(value, str):
        pair.value.string_value = value.encode("utf-8", "replace")
    else:
        pair.value.double_value = value
