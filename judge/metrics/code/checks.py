"""Checks of an answer that need neither prompt nor judge.

Each takes time in proportion to its texts, or nearly so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol

from rapidfuzz.distance import Indel

from judge.errors import EventError
from judge.metric import Outcome, OwnProcess, UnscoredOutcome
from judge.metrics.code.scale import Scale, yes_or_no
from judge.text.index import is_blank
from judge.text.sentences import sentences
from judge.text.words import word_texts
from schemas import JudgeTask
from schemas.base import EventField

EventText = EventField | Literal["fields"]
"""What a check may be given of an event; labels and ids it has always."""
Read = Literal["question", "answer", "reference"]
"""The text that a check looks at."""


class Check(Protocol):
    """One way to look at an answer. Its representation is part of the fingerprint."""

    @property
    def scale(self) -> Scale:
        """What it may give."""

    @property
    def uses(self) -> tuple[EventText, ...]:
        """The texts that it looks at."""

    @property
    def process(self) -> OwnProcess | None:
        """Where alone `outcome` may be called; None: anywhere."""

    @property
    def version(self) -> str:
        """Version of its rules."""

    def outcome(self, task: JudgeTask) -> Outcome:
        """Look at an answer.

        Raises:
            EventError: It cannot be looked at.
        """


class Anywhere:
    """A check by our own code, in time that the texts' length bounds."""

    process: ClassVar[OwnProcess | None] = None
    version: ClassVar[str] = "1"


class OneText(Anywhere):
    """What looks at one text of an event: `of` names it."""

    of: Read

    @property
    def uses(self) -> tuple[EventText, ...]:
        """The text."""
        return (self.of,)

    def outcome(self, task: JudgeTask) -> Outcome:
        """Look at the text; without it there is nothing to decide."""
        text = read_text(task, self.of)
        return UnscoredOutcome("missing_input") if text is None else self.look(text)

    def look(self, text: str) -> Outcome:
        """Decide by the text."""
        raise NotImplementedError


@dataclass(frozen=True)
class Contains(OneText):
    """Whether a text contains words or phrases, character by character.

    Args:
        texts: What is looked for; at least one, none empty.
        need: Whether one match is enough.
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
        """True where it contains them."""
        return yes_or_no(good=self.good)

    def look(self, text: str) -> Outcome:
        """Search."""
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
        score_range: Ends of the scale; what lies beyond counts as the end, and the evidence has the figure.
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
        """Count."""
        count = {"characters": len, "words": _word_count, "sentences": _sentence_count}[self.unit](text)
        return _within(self.scale, float(count), f"{count} {self.unit}")


@dataclass(frozen=True)
class Similarity(Anywhere):
    """How far the answer has the reference's words in their order: 0 none, 1 all and no others.

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
        """Compare."""
        if is_blank(task.reference) or is_blank(task.answer):
            return UnscoredOutcome("missing_input")
        said, wanted = word_texts(task.answer), word_texts(task.reference or "")
        alike = Indel.normalized_similarity(said, wanted)
        return self.scale.outcome(alike, reason=f"{len(said)} words against {len(wanted)}")


@dataclass(frozen=True)
class FromLabel(Anywhere):
    """A number that the event carries as a label, such as the answer's latency or its cost.

    Args:
        label: The label's name.
        score_range: Ends of the scale; what lies beyond counts as the end, and the evidence has the figure.
        factor: What the label's number is multiplied with, such as 0.001 for milliseconds.
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
    """The text; None where the event has no such question or reference. An empty answer is one."""
    if name == "answer":
        return task.answer
    text = task.question if name == "question" else task.reference
    return None if is_blank(text) else text


def _word_count(text: str) -> int:
    return len(word_texts(text))


def _sentence_count(text: str) -> int:
    return len(sentences(text))
