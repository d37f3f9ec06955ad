"""Validate a judge's reply by a pack's response schema."""

from __future__ import annotations

from itertools import islice

from judge.chat import ResponseSchema
from judge.errors import InvalidVerdictError, PromptPackError
from judge.metrics.replies.reply import extract_verdict
from judge.metrics.replies.structured import with_whole_score

MAX_TOLD = 3
"""Limit of violations listed in one error."""


class Conformity:
    """Validates verdicts by a JSON Schema (Draft 2020-12), because not every endpoint enforces it.

    Args:
        schema: The schema.

    Raises:
        PromptPackError: It is not a JSON Schema.
    """

    def __init__(self, schema: ResponseSchema) -> None:
        # Imported here: it is slow, and few workers need it.
        from jsonschema import Draft202012Validator, SchemaError  # noqa: PLC0415

        try:
            Draft202012Validator.check_schema(schema.schema)
        except (SchemaError, RecursionError) as error:
            raise PromptPackError(
                f"response_schema is not a JSON Schema: {str(error).splitlines()[0][:300]}"
            ) from error
        self._schema = schema
        self._validator = Draft202012Validator(schema.schema)

    def __reduce__(self) -> tuple[type[Conformity], tuple[ResponseSchema]]:
        """Pickle only the schema; the validator cannot be pickled."""
        return Conformity, (self._schema,)

    def check(self, reply: str) -> None:
        """Validate the verdict of a reply; a whole-number score counts as an integer.

        Raises:
            InvalidVerdictError: There is no single verdict, or it violates the schema; the detail names the
                place.
        """
        verdict = with_whole_score(extract_verdict(reply))
        told = [
            f"{error.json_path[2:] or 'the verdict'}: {error.message[:200]}"
            for error in islice(self._validator.iter_errors(verdict), MAX_TOLD)
        ]
        if told:
            raise InvalidVerdictError(f"the verdict violates the response schema: {'; '.join(told)}")
