"""What metrics share: their constant facts, built-in prompts, and the findings of verification."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from judge.chat import ChatRequest, ResponseSchema
from judge.errors import InvalidVerdictError
from judge.metric import Inputs, Mode, Outcome, OwnProcess
from judge.metrics.packs.pack import PromptPack
from judge.metrics.prompting import built_in_hash, built_in_messages, load_prompt, schema_hash
from judge.metrics.scale import OffScaleError, Scale
from judge.text.normal import quoted
from schemas import Correction, CorrectionKind, JudgeTask, QAEvent, Suspicion, SuspicionKind
from schemas.base import EventField

MAX_NAMED = 8
"""Limit of quotations listed in one repair turn."""


@dataclass(kw_only=True, eq=False)  # metrics are keys
class BaseMetric(ABC):
    """The constant facts of a metric; a subclass adds `prepare`, and `interpret` if it asks a judge.

    A class that an entry point of `judgestream.metrics` names is built with its name and its `options`.
    """

    options: ClassVar[tuple[str, ...]] = ()
    """Settings that its constructor takes: `pack`, `citation_pattern`, `without_citations`."""
    needs: ClassVar[tuple[EventField, ...]] = ()
    """Fields that an event needs to be judged by default."""

    name: str
    mode: Mode
    scale: Scale
    scoring_version: str
    prompt_hash: str = "none"
    schema_hash: str = "none"
    uses: tuple[str, ...] = ("question", "answer")
    """The texts of an event that it needs, by their names in `Inputs`."""
    process: OwnProcess | None = None
    """Limits of the child process that runs `prepare`; None: it runs in the worker's own."""

    @property
    def score_range(self) -> tuple[float, float]:
        return self.scale.score_range

    @property
    def labels(self) -> Mapping[str, int]:
        return self.scale.labels

    def select(self, event: QAEvent) -> Inputs:
        return Inputs.of(event, self.uses)

    @abstractmethod
    def prepare(self, task: JudgeTask) -> ChatRequest | Outcome:
        """Build the judge's request, or return the outcome if no call is needed."""

    def interpret(self, task: JudgeTask, reply: str) -> Outcome:  # noqa: ARG002 - for those that ask a judge
        """Turn the judge's reply into a checked verdict.

        Raises:
            InvalidVerdictError: The reply is invalid; the detail says what to repair.
        """
        raise InvalidVerdictError("no judge is used")

    def score_of(self, said: object) -> bool | float | str:
        """Return the score of a judge's verdict; InvalidVerdictError if it is not on the scale."""
        return score_on(self.scale, said)


def score_on(scale: Scale, said: object) -> bool | float | str:
    """Return a judge's score on a scale; InvalidVerdictError if it is not on it."""
    try:
        return scale.value(said)
    except OffScaleError as error:
        raise InvalidVerdictError(
            f'"score" must be {error}, got {json.dumps(said, default=str)[:60]}'
        ) from None


class BuiltInMetric(BaseMetric):
    """A metric with a prompt of its own, which a pack may replace; the mode is then verbatim."""

    def __init__(
        self,
        name: str,
        scale: Scale,
        schema: ResponseSchema,
        scoring_version: str,
        pack: PromptPack | None = None,
        *,
        instructions: str | None = None,
    ) -> None:
        self.pack = pack
        self.instructions = instructions or load_prompt(f"{name}.evidence")
        self.response_schema = schema if pack is None else pack.response_schema
        super().__init__(
            name=name,
            mode="evidence" if pack is None else "verbatim",
            scale=scale,
            scoring_version=scoring_version,
            prompt_hash=built_in_hash(self.instructions) if pack is None else pack.hash,
            schema_hash=schema_hash(self.response_schema),
        )

    def request(self, sections: Mapping[str, str], *, max_output_tokens: int = 4096) -> ChatRequest:
        messages = built_in_messages(self.instructions, sections)
        return ChatRequest(messages, self.response_schema, max_output_tokens)


@dataclass
class Findings:
    """Findings of one verdict: corrections lower the score, suspicions only mark the result."""

    corrections: list[Correction] = field(default_factory=list)
    suspicions: list[Suspicion] = field(default_factory=list)
    missing_quotations: list[str] = field(default_factory=list)

    def of_outcome(self) -> dict[str, Any]:
        """Return the fields of a scored outcome."""
        return self.marks() | {"objection": self.objection}

    def marks(self) -> dict[str, Any]:
        return {"corrections": tuple(self.corrections), "suspicions": tuple(self.suspicions)}

    @property
    def objection(self) -> str | None:
        """Message to the judge about quotations that are not in their text; None if all were found."""
        if not self.missing_quotations:
            return None
        named = "; ".join(self.missing_quotations[:MAX_NAMED])
        more = len(self.missing_quotations) - MAX_NAMED
        return (
            "these quotations are not in their text: "
            f"{named}{f'; and {more} more' if more > 0 else ''}. Copy each character by "
            "character from the text, in one piece, or correct what rests on it"
        )

    def correct(self, kind: CorrectionKind, detail: str) -> None:
        self.corrections.append(Correction(kind=kind, detail=detail))

    def suspect(self, kind: SuspicionKind, detail: str) -> None:
        self.suspicions.append(Suspicion(kind=kind, detail=detail))

    def not_found(self, where: str, quotation: str | None, text: str) -> None:
        """Record a quotation (None: missing) that is not in the text named, for the repair turn."""
        self.missing_quotations.append(
            f"{where}: no words of {text} are given"
            if quotation is None
            else f"{where} {quoted(str(quotation))} is not in {text}"
        )
