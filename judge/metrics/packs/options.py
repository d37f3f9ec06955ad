"""Options of a prompt pack: its scale, response schema, quotations and examples."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Annotated, Any, Self

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, field_validator, model_validator

from judge.chat import ResponseSchema
from judge.errors import PromptPackError
from judge.metric import Inputs
from judge.metrics.base import Scale, read_scale, read_score_range
from judge.metrics.packs.templates import NAMED, TEXTS, TextName
from judge.metrics.replies import json_validator, unresolved_reference
from schemas import ChatMessage as Turn
from schemas import ToolCall

MAX_EXAMPLES = 50
"""Limited, because every call sends all examples."""
_SCHEMA_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")

PAIR = Scale((0, 2), "label", {"answer": 2, "tie": 1, "other": 0})
"""The published values of a comparison: the better answer, or a tie."""
SAID = Scale((0, 2), "label", {"first": 2, "tie": 1, "second": 0})
"""The judge's values: `first` is the answer shown first."""

_Text = Annotated[str, Field(pattern=r"\S")]


class Example(BaseModel):
    """One example: the texts that the templates use, by their names in either dialect, and the reply."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    question: _Text | None = Field(None, validation_alias=AliasChoices("question", "input"))
    answer: _Text | None = Field(None, validation_alias=AliasChoices("answer", "output_text"))
    reference: _Text | None = None
    context: dict[str, str] | None = None
    messages: tuple[Turn, ...] | None = None
    tool_calls: tuple[ToolCall, ...] | None = None
    other_answer: _Text | None = None
    fields: dict[str, _Text] = Field(default_factory=dict)
    labels: dict[str, _Text] = Field(default_factory=dict)
    reply: str

    @field_validator("context", mode="before")
    @classmethod
    def _one_page(cls, value: Any) -> Any:
        return {"Page-1": value} if isinstance(value, str) else value

    @field_validator("reply", mode="before")
    @classmethod
    def _as_json(cls, value: Any) -> str:
        reply = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, allow_nan=False)
        return reply.strip()

    @property
    def given(self) -> frozenset[TextName]:
        names = {name for name in TEXTS if getattr(self, name) is not None}
        return frozenset(
            names | {f"fields.{name}" for name in self.fields} | {f"labels.{name}" for name in self.labels}
        )

    @property
    def inputs(self) -> Inputs:
        texts = {name: getattr(self, name) for name in TEXTS}
        named = self.fields | {f"labels.{name}": text for name, text in self.labels.items()}
        return Inputs(
            **texts | {"question": self.question or "", "answer": self.answer or ""}, fields=named or None
        )


class PackOptions(BaseModel):
    """Unknown keys are ignored with a warning."""

    model_config = ConfigDict(frozen=True, arbitrary_types_allowed=True)

    name: _Text | None = None
    score_range: tuple[int | float, int | float] | None = None
    """Lowest and highest score; fixed by a `result` of true and false, labels or pairs."""
    result: Any = None
    """`number`, `boolean`, `pairwise`, or labels, best first or with a number each; None: a whole number."""
    good: Any = None
    response_schema: ResponseSchema | None = None
    """A JSON Schema of the reply: bare, as JSON text, or wrapped as in a response_format."""
    quotes: dict[str, TextName] = Field(default_factory=dict)
    """Keys of the verdict, at any depth, whose values must stand in a text, with the text's name."""
    event: tuple[TextName, ...] = Field(default=("question", "answer"), min_length=1)
    examples: tuple[Example, ...] = Field(default=(), max_length=MAX_EXAMPLES)

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, given: Any) -> Any:
        given = {str(key): value for key, value in given.items() if value is not None}
        if "score_range" in given:
            is_number = given.get("result") == "number"
            given["score_range"] = read_score_range(given["score_range"], is_number=is_number)
        return given

    @field_validator("response_schema", mode="before")
    @classmethod
    def _schema(cls, given: Any) -> ResponseSchema:
        return _response_schema(given)

    @field_validator("quotes", "event")
    @classmethod
    def _texts(cls, given: Any) -> Any:
        for text in given.values() if isinstance(given, dict) else given:
            if text not in TEXTS and not NAMED.fullmatch(text):
                raise ValueError(f"must name a text ({', '.join(TEXTS)}, fields.NAME), got {text!r:.80}")
        return given

    @model_validator(mode="after")
    def _result_and_range(self) -> Self:
        if self.good is not None and self.result in (None, "number", "pairwise"):
            raise PromptPackError("good needs `result: boolean`")
        if self.result not in (None, "number") and self.score_range is not None:
            raise PromptPackError(
                "score_range and result exclude each other: the range follows from the result"
            )
        self.scale((0, 1))
        return self

    @property
    def is_pair(self) -> bool:
        return bool(self.result == "pairwise")

    def scale(self, score_range: tuple[float, float]) -> Scale:
        if self.is_pair:
            return PAIR
        return read_scale("integer" if self.result is None else self.result, score_range, good=self.good)


def _response_schema(given: Any) -> ResponseSchema:
    schema = given
    if isinstance(given, str):
        try:
            schema = json.loads(given)
        except (ValueError, RecursionError) as error:
            raise PromptPackError(f"response_schema is not JSON: {error}") from error
    name = "verdict"
    if isinstance(schema, dict) and isinstance(schema.get("schema"), dict):
        named = schema.get("name")
        name = named if isinstance(named, str) and _SCHEMA_NAME.fullmatch(named) else name
        schema = schema["schema"]
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict) or "score" not in properties:
        raise PromptPackError('response_schema must be the JSON Schema of an object with a property "score"')
    try:
        written = json.dumps(schema, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise PromptPackError(f"response_schema has values that JSON cannot express: {error}") from error
    try:
        json_validator(written)
    except ValueError as error:
        raise PromptPackError(f"response_schema is not a JSON Schema: {error}") from error
    if (missing := unresolved_reference(schema)) is not None:
        raise PromptPackError(
            f"response_schema: nothing is at $ref {missing!r:.200}; define it under $defs of the same schema"
        )
    return ResponseSchema(name=name, schema=schema)


def schema_warnings(given: ResponseSchema | None) -> Iterator[str]:
    if given is None:
        return
    schema = given.schema
    if schema.get("additionalProperties") is not False or set(schema.get("required", ())) != set(
        schema["properties"]
    ):
        yield (
            "response_schema is sent in strict mode, which many endpoints take only with "
            "`additionalProperties: false` and every property listed as required"
        )
