"""Check whether an answer is valid JSON and matches a schema."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import orjson

from judge.errors import EventError, JudgeConfigurationError
from judge.metric import Outcome, OwnProcess
from judge.metrics.code.checks import EventText
from judge.metrics.code.scale import Scale, yes_or_no
from schemas import JudgeTask


@dataclass(frozen=True)
class JsonValid:
    """Whether the answer is JSON, optionally in one Markdown fence, and matches a schema.

    Args:
        schema: JSON Schema (Draft 2020-12) as JSON; None: any JSON is valid. References to other documents
            are not followed.

    Raises:
        JudgeConfigurationError: It is not a JSON Schema.
    """

    schema: str | None = None

    def __post_init__(self) -> None:
        if self.schema is None:
            return
        from jsonschema import Draft202012Validator, SchemaError  # noqa: PLC0415 - few need it

        try:
            Draft202012Validator.check_schema(orjson.loads(self.schema))
        except (SchemaError, RecursionError, orjson.JSONDecodeError) as error:
            raise JudgeConfigurationError(
                f"schema is not a JSON Schema: {str(error).splitlines()[0][:300]}"
            ) from error

    version: ClassVar[str] = "1"

    @property
    def process(self) -> OwnProcess | None:
        """A child process if there is a schema, whose patterns may be slow; else None."""
        return None if self.schema is None else OwnProcess()

    @property
    def scale(self) -> Scale:
        """True if it is valid."""
        return yes_or_no(good=True)

    @property
    def uses(self) -> tuple[EventText, ...]:
        """The answer."""
        return ("answer",)

    def outcome(self, task: JudgeTask) -> Outcome:
        """Parse the answer and validate it by the schema.

        Raises:
            EventError: The schema contains an unresolvable reference.
        """
        try:
            document = orjson.loads(_unfenced(task.answer))
        except orjson.JSONDecodeError as error:
            return self.scale.outcome(value=False, reason=f"the answer is not JSON: {str(error)[:200]}")
        problem = None if self.schema is None else _breach(self.schema, document)
        if problem is None:
            return self.scale.outcome(value=True, reason="the answer is valid JSON")
        return self.scale.outcome(value=False, reason=f"the answer violates the schema: {problem}")


def _unfenced(answer: str) -> str:
    """Return the content of a Markdown fence around the whole answer, else the answer."""
    text = answer.strip()
    first, _, rest = text.partition("\n")
    if first.startswith("```") and rest.rstrip().endswith("```") and "`" not in first[3:]:
        return rest.rstrip()[:-3]
    return text


@lru_cache(maxsize=16)
def _validator(schema: str) -> Any:
    from jsonschema import Draft202012Validator  # noqa: PLC0415 - few need it
    from referencing import Registry  # noqa: PLC0415

    # With an explicit registry, references to other documents are not fetched.
    return Draft202012Validator(orjson.loads(schema), registry=Registry())


def _breach(schema: str, document: Any) -> str | None:
    from referencing.exceptions import Unresolvable  # noqa: PLC0415 - few need it

    try:
        error = next(_validator(schema).iter_errors(document), None)
    except (Unresolvable, RecursionError) as failure:
        raise EventError("metric_error", f"the schema cannot be applied: {str(failure)[:300]}") from failure
    if error is None:
        return None
    where = "/".join(map(str, error.absolute_path)) or "the document"
    return f"{where}: {error.message[:300]}"
