"""What metrics have in common: a task that is judged in one piece, prompts that are built in or a pack's."""

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
    """The part of a metric that judges each task in one piece."""

    def parts(self, task: JudgeTask, *, halve: bool = False) -> tuple[JudgeTask, ...]:  # noqa: ARG002 - the protocol's
        """The task as it is."""
        return (task,)

    def merged(self, replies: Sequence[str]) -> str:
        """The one reply."""
        return replies[0]


class WithoutPrompt(WholeTask):
    """The part of a metric that sends no prompt: code or an embedding model decides.

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
    """A metric with prompts of its own, for evidence and for the judge's own verdict.

    A class below it says what it selects, asks, and makes of the reply (`judge.metric.Metric`).

    Args:
        mode: How the judge is asked.
        pack: Prompts that replace the built-in ones; the mode is then verbatim.
        verification: What happens to suspicions.
    """

    NAME: ClassVar[str]
    RANGE: ClassVar[tuple[int, int]]
    _EVIDENCE: ClassVar[ResponseSchema]
    """What a judge fills in evidence mode."""

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
        """How the judge is asked."""
        return self._mode

    @property
    def prompt_hash(self) -> str:
        """Hash of the prompts, the pack's where one is used."""
        return built_in_hash(self.instructions) if self._pack is None else self._pack.hash

    @property
    def schema_hash(self) -> str:
        """Hash of the response schema, or "none"."""
        return schema_hash(self.response_schema)

    @property
    def instructions(self) -> str:
        """The constant beginning of every call, unless there is a pack; a file of `judge/prompts`."""
        return load_prompt(f"{self.NAME}.{self._mode}")

    @property
    def response_schema(self) -> ResponseSchema | None:
        """What the judge fills in; None where it writes as it likes."""
        if self._pack is not None:
            return self._pack.response_schema
        return self._EVIDENCE if self._mode == "evidence" else None

    def _request(self, sections: Mapping[str, str]) -> ChatRequest:
        """Ask with the metric's own instructions about these texts, by name."""
        messages = built_in_messages(self.instructions, sections)
        return ChatRequest(messages, response_schema=self.response_schema)

    @property
    @abstractmethod
    def scoring_version(self) -> str:
        """Version of the rules that turn a reply into a score."""

    @abstractmethod
    def select(self, event: QAEvent) -> Inputs:
        """Take from an event what this metric needs."""

    @abstractmethod
    def prepare(self, task: JudgeTask) -> ChatRequest | Outcome:
        """Build the request, or decide at once."""

    @abstractmethod
    def interpret(self, task: JudgeTask, reply: str) -> Outcome:
        """Turn the judge's reply into a verdict."""
