"""Checks of an answer without a judge, in about linear time."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol

from rapidfuzz.distance import Indel

from judge.errors import EventError
from judge.metric import Outcome, OwnProcess, UnscoredOutcome
from judge.metrics.code.scale import Scale, yes_or_no
from judge.text.normal import is_blank
from judge.text.sentences import sentences
from judge.text.words import word_texts
from schemas import JudgeTask
from schemas.base import EventField

EventText = EventField | Literal["fields"]
"""Texts that a check may request; labels and ids are always available."""
Read = Literal["question", "answer", "reference"]
"""The text that a check examines."""


class Check(Protocol):
    """A check of an answer. Its `repr` is part of the fingerprint."""

    @property
    def scale(self) -> Scale:
        """Its possible results."""

    @property
    def uses(self) -> tuple[EventText, ...]:
        """The texts that it examines."""

    @property
    def process(self) -> OwnProcess | None:
        """The child process for `outcome`; None: any process."""

    @property
    def version(self) -> str:
        """Version of its rules."""

    def outcome(self, task: JudgeTask) -> Outcome:
        """Return the outcome for an answer.

        Raises:
            EventError: It cannot be checked.
        """


class Anywhere:
    """Mixin for checks by the product's own code, which needs no child process."""

    process: ClassVar[OwnProcess | None] = None
    version: ClassVar[str] = "1"


class OneText(Anywhere):
    """Mixin for checks of one text, named by `of`."""

    of: Read

    @property
    def uses(self) -> tuple[EventText, ...]:
        """The text."""
        return (self.of,)

    def outcome(self, task: JudgeTask) -> Outcome:
        """Check the text; unscored if it is missing."""
        text = read_text(task, self.of)
        return UnscoredOutcome("missing_input") if text is None else self.look(text)

    def look(self, text: str) -> Outcome:
        """Return the outcome for the text."""
        raise NotImplementedError


@dataclass(frozen=True)
class Contains(OneText):
    """Whether a text contains words or phrases, compared literally.

    Args:
        texts: Texts to search for; at least one, none empty.
        need: `all` if every text must match, `any` if one is enough.
        ignore_case: Whether to ignore case.
        of: The text to search.
        good: Whether a match is good.
    """

    texts: tuple[str, ...]
    need: Literal["any", "all"] = "all"
    ignore_case: bool = True
    of: Read = "answer"
    good: bool = True

    @property
    def scale(self) -> Scale:
        """True if it contains them."""
        return yes_or_no(good=self.good)

    def look(self, text: str) -> Outcome:
        """Return whether a text is found."""
        searched = text.casefold() if self.ignore_case else text
        there = [one for one in self.texts if (one.casefold() if self.ignore_case else one) in searched]
        found = len(there) == len(self.texts) if self.need == "all" else bool(there)
        reason = f"{len(there)} of {len(self.texts)} texts found"
        return self.scale.outcome(found, reason=reason, evidence={"found": there})


@dataclass(frozen=True)
class Length(OneText):
    """How long a text is.

    Args:
        unit: The unit to count.
        score_range: Ends of the scale; values beyond are clipped, and the evidence has the exact value.
        of: The text.
    """

    unit: Literal["characters", "words", "sentences"] = "words"
    score_range: tuple[float, float] = (0, 1000)
    of: Read = "answer"

    @property
    def scale(self) -> Scale:
        """The count."""
        return Scale(self.score_range)

    def look(self, text: str) -> Outcome:
        """Return the length."""
        count = {"characters": len, "words": _word_count, "sentences": _sentence_count}[self.unit](text)
        return _within(self.scale, float(count), f"{count} {self.unit}")


@dataclass(frozen=True)
class Similarity(Anywhere):
    """Similarity of the answer's and the reference's word sequences: 0 no common words, 1 equal.

    2·L / (m + n), with L the length of the longest common subsequence of m and n words (the normalised Indel
    similarity of rapidfuzz).
    """

    @property
    def scale(self) -> Scale:
        """From 0 to 1."""
        return Scale((0.0, 1.0))

    @property
    def uses(self) -> tuple[EventText, ...]:
        """Both texts."""
        return ("answer", "reference")

    def outcome(self, task: JudgeTask) -> Outcome:
        """Return the similarity."""
        if is_blank(task.reference) or is_blank(task.answer):
            return UnscoredOutcome("missing_input")
        said, wanted = word_texts(task.answer), word_texts(task.reference or "")
        alike = Indel.normalized_similarity(said, wanted)
        return self.scale.outcome(alike, reason=f"{len(said)} words against {len(wanted)}")


@dataclass(frozen=True)
class FromLabel(Anywhere):
    """A number in one of the event's labels, such as latency or cost.

    Args:
        label: The label's name.
        score_range: Ends of the scale; values beyond are clipped, and the evidence has the exact value.
        factor: Factor of the label's number, such as 0.001 for milliseconds.
    """

    label: str
    score_range: tuple[float, float]
    factor: float = 1.0

    @property
    def scale(self) -> Scale:
        """The number."""
        return Scale(self.score_range)

    @property
    def uses(self) -> tuple[EventText, ...]:
        """No text."""
        return ()

    def outcome(self, task: JudgeTask) -> Outcome:
        """Read the label.

        Raises:
            EventError: It is not a number.
        """
        written = task.labels.get(self.label, "").strip()
        if not written:
            return UnscoredOutcome("missing_input")
        try:
            number = float(written) * self.factor
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise EventError(
                "metric_error",
                f"label {self.label} must be a number, got {written[:60]!r}; correct the producer",
            )
        return _within(self.scale, number, f"label {self.label} is {written[:60]}")


def _within(scale: Scale, number: float, reason: str) -> Outcome:
    low, high = scale.score_range
    evidence = {"value": number}
    return scale.outcome(min(max(number, low), high), reason=reason, evidence=evidence)


def read_text(task: JudgeTask, name: Read) -> str | None:
    """Return the text; None if question or reference are missing. An empty answer is returned."""
    if name == "answer":
        return task.answer
    text = task.question if name == "question" else task.reference
    return None if is_blank(text) else text


def _word_count(text: str) -> int:
    return len(word_texts(text))


def _sentence_count(text: str) -> int:
    return len(sentences(text))
