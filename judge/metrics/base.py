"""What metrics have in common: a task that is judged in one piece, prompts that are built in or a pack's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from judge.chat import ResponseSchema
from judge.metric import Mode, Verification
from judge.metrics.prompting import PromptSource, built_in_hash, schema_hash
from schemas import JudgeTask


class WholeTask:
    """The part of a metric that judges each task in one piece."""

    def parts(self, task: JudgeTask, *, halve: bool = False) -> tuple[JudgeTask, ...]:  # noqa: ARG002 - the protocol's
        """The task as it is."""
        return (task,)

    def merged(self, replies: Sequence[str]) -> str:
        """The one reply."""
        return replies[0]


class BuiltInMetric(WholeTask):
    """The part of a metric with prompts of its own, for evidence and for the judge's own verdict.

    Args:
        mode: How the judge is asked.
        pack: Prompts that replace the built-in ones; the mode is then verbatim.
        verification: What becomes of suspicions.
    """

    _NAME: ClassVar[str]
    _RANGE: ClassVar[tuple[int, int]]
    _EVIDENCE: ClassVar[ResponseSchema]
    """What a judge fills in evidence mode."""

    def __init__(
        self,
        *,
        mode: Mode = "evidence",
        pack: PromptSource | None = None,
        verification: Verification = "marks",
    ) -> None:
        self._mode: Mode = "verbatim" if pack is not None else mode
        self._pack = pack
        self._verification: Verification = verification

    @property
    def name(self) -> str:
        """The metric's name."""
        return self._NAME

    @property
    def score_range(self) -> tuple[int, int]:
        """Lowest and highest score."""
        return self._RANGE

    @property
    def labels(self) -> Mapping[str, int]:
        """Empty: scores are numbers."""
        return {}

    @property
    def mode(self) -> Mode:
        """How the judge is asked."""
        return self._mode

    @property
    def prompt_hash(self) -> str:
        """Hash of the prompts, the pack's where one is used."""
        return built_in_hash(self._prompt) if self._pack is None else self._pack.hash

    @property
    def schema_hash(self) -> str:
        """Hash of the response schema, or "none"."""
        return schema_hash(self._schema)

    @property
    def _prompt(self) -> str:
        return f"{self._NAME}.{self._mode}"

    @property
    def _schema(self) -> ResponseSchema | None:
        if self._pack is not None:
            return self._pack.response_schema
        return self._EVIDENCE if self._mode == "evidence" else None
