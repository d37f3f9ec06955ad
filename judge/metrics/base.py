"""Base classes of metrics: undivided tasks, no prompt, built-in or pack prompts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar

from judge.chat import ChatRequest, ResponseSchema
from judge.metric import Inputs, Mode, Outcome, Verification
from judge.metrics.packs.pack import PromptPack
from judge.metrics.prompting import built_in_hash, built_in_messages, load_prompt, schema_hash
from schemas import JudgeTask, QAEvent


class WholeTask:
    """Mixin for metrics that do not split tasks."""

    def parts(self, task: JudgeTask, *, halve: bool = False) -> tuple[JudgeTask, ...]:  # noqa: ARG002 - the protocol's
        """Return the task unchanged."""
        return (task,)

    def merged(self, replies: Sequence[str]) -> str:
        """Return the only reply."""
        return replies[0]


class WithoutPrompt(WholeTask):
    """Mixin for metrics without a prompt: code or an embedding model decides.

    Args:
        name: The metric's name.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def name(self) -> str:
        """The metric's name."""
        return self._name

    @property
    def labels(self) -> Mapping[str, int]:
        """Empty: scores are numbers."""
        return {}

    @property
    def prompt_hash(self) -> str:
        """The word "none"."""
        return "none"

    @property
    def schema_hash(self) -> str:
        """The word "none"."""
        return "none"


class BuiltInMetric(WholeTask, ABC):
    """Base class of metrics with built-in prompts for the modes evidence and verbatim.

    A subclass implements
    `select`, `prepare` and `interpret` (`judge.metric.Metric`).

    Args:
        mode: The mode.
        pack: Prompts that replace the built-in ones; the mode is then verbatim.
        verification: How suspicions are handled.
    """

    NAME: ClassVar[str]
    RANGE: ClassVar[tuple[int, int]]
    _EVIDENCE: ClassVar[ResponseSchema]
    """Response schema in evidence mode."""

    def __init__(
        self,
        *,
        mode: Mode = "evidence",
        pack: PromptPack | None = None,
        verification: Verification = "marks",
    ) -> None:
        self._mode: Mode = "verbatim" if pack is not None else mode
        self._pack = pack
        self._verification: Verification = verification

    @property
    def name(self) -> str:
        """The metric's name."""
        return self.NAME

    @property
    def score_range(self) -> tuple[int, int]:
        """Lowest and highest score."""
        return self.RANGE

    @property
    def labels(self) -> Mapping[str, int]:
        """Empty: scores are numbers."""
        return {}

    @property
    def mode(self) -> Mode:
        """The mode."""
        return self._mode

    @property
    def prompt_hash(self) -> str:
        """Hash of the prompts, or of the pack's."""
        return built_in_hash(self.instructions) if self._pack is None else self._pack.hash

    @property
    def schema_hash(self) -> str:
        """Hash of the response schema, or "none"."""
        return schema_hash(self.response_schema)

    @property
    def instructions(self) -> str:
        """The constant instructions of every call without a pack, from a file of `judge/prompts`."""
        return load_prompt(f"{self.NAME}.{self._mode}")

    @property
    def response_schema(self) -> ResponseSchema | None:
        """Schema of the reply; None for free text."""
        if self._pack is not None:
            return self._pack.response_schema
        return self._EVIDENCE if self._mode == "evidence" else None

    def _request(self, sections: Mapping[str, str]) -> ChatRequest:
        """Build a request with the metric's instructions and these named texts."""
        messages = built_in_messages(self.instructions, sections)
        return ChatRequest(messages, response_schema=self.response_schema)

    @property
    @abstractmethod
    def scoring_version(self) -> str:
        """Version of the rules that turn a reply into a score."""

    @abstractmethod
    def select(self, event: QAEvent) -> Inputs:
        """Return the texts that this metric needs from an event."""

    @abstractmethod
    def prepare(self, task: JudgeTask) -> ChatRequest | Outcome:
        """Build the request, or return the outcome if no call is needed."""

    @abstractmethod
    def interpret(self, task: JudgeTask, reply: str) -> Outcome:
        """Turn the judge's reply into a verdict."""
