"""Holding a judge's reply against a pack's response schema."""

from __future__ import annotations

from itertools import islice

from judge.chat import ResponseSchema
from judge.errors import InvalidVerdictError, PromptPackError
from judge.metrics.replies.reply import extract_verdict
from judge.metrics.replies.structured import with_whole_score

MAX_TOLD = 3
"""Breaches that one error names."""


class Conformity:
    """Checks verdicts by a JSON Schema (Draft 2020-12), for not every endpoint enforces what it is sent.

    Args:
        schema: The schema.

    Raises:
        PromptPackError: It is not JSON Schema.
    """

    def __init__(self, schema: ResponseSchema) -> None:
        # Here, because it takes long to import, and most workers have no such pack.
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
        """By its schema, for the validator itself cannot go to another process."""
        return Conformity, (self._schema,)

    def check(self, reply: str) -> None:
        """Read the verdict of a reply and hold it against the schema; a whole score counts as an integer.

        Raises:
            InvalidVerdictError: There is no single verdict, or it breaks the schema; the detail names where.
        """
        verdict = with_whole_score(extract_verdict(reply))
        told = [
            f"{error.json_path[2:] or 'the verdict'}: {error.message[:200]}"
            for error in islice(self._validator.iter_errors(verdict), MAX_TOLD)
        ]
        if told:
            raise InvalidVerdictError(f"the verdict violates the response schema: {'; '.join(told)}")
