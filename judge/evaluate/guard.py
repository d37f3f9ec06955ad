"""Limits and redaction of a metric's texts, before any other processing; and the neutral event."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

from judge.chat import ChatRequest
from judge.errors import EventError, JudgeConfigurationError
from judge.evaluate.limited import keep_loaded
from judge.metric import Inputs, Metric, Outcome, OwnProcess, further_texts, unsampled_task
from judge.text.normal import compared_chars
from judge.text.redaction import Kind, Redactor
from schemas import ChatMessage, JudgeTask, QAEvent, ToolCall

NAMES_MODEL: Final = "en_core_web_lg"
MAX_NAMES_CHARS: Final = 10_000
"""Longer texts are processed in parts of this size; the model needs about 100 MB for each."""
_PARTS: Final = re.compile(rf"(?s).{{1,{MAX_NAMES_CHARS}}}(?:(?<=\s)|\Z)|.{{{MAX_NAMES_CHARS}}}")
_INSTALL: Final = (
    f'install it with pip install "judgestream[presidio]" and python -m spacy download {NAMES_MODEL}, '
    "or remove names"
)
NEUTRAL_EVENT: Final = QAEvent(
    event_id="judgestream-neutral",
    question="Where is the Eiffel Tower, and since when?",
    answer=(
        "The Eiffel Tower stands in Paris. Evidence: [Page 1]\nIt was completed in 1889. Evidence: [Page 2]"
    ),
    reference="The Eiffel Tower is in Paris. It was completed in 1889.",
    context={
        "Page-1": "The Eiffel Tower stands on the Champ de Mars in Paris.",
        "Page-2": "The Eiffel Tower was completed in March 1889.",
    },
    messages=(
        ChatMessage(role="user", content="Where is the Eiffel Tower, and since when?"),
        ChatMessage(role="assistant", content="The Eiffel Tower stands in Paris. It was completed in 1889."),
    ),
    tool_calls=(ToolCall(name="search", arguments='{"query": "Eiffel Tower"}', result="Paris, 1889"),),
    other_answer="The Eiffel Tower has stood in Paris since 1889.",
)
"""An event that any judge can judge: it tells an endpoint's failure from an event's."""


def neutral_task(metric: Metric, *, now: datetime) -> JudgeTask:
    task = unsampled_task(NEUTRAL_EVENT, metric, source=NEUTRAL_EVENT.event_id, now=now.astimezone(UTC))
    if task.fields is None:
        return task
    named = {name: text or "The Eiffel Tower is in Paris." for name, text in task.fields.items()}
    return task.model_copy(update={"fields": named})


@dataclass(frozen=True, slots=True)
class TextLimits:
    """Limits in characters after NFKD normalisation, which makes up to 18 of one; longer texts fail."""

    question: int = 50_000
    answer: int = 50_000
    context: int = 1_000_000
    """Total of the reference, cited pages, conversation, tool calls and other texts."""


class GuardedMetric:
    """Passes bounded texts to a metric, redacted at creation and again at judging: a task may be old."""

    def __init__(self, metric: Metric, *, redactor: Redactor, limits: TextLimits) -> None:
        self._metric = metric
        self._redactor = redactor
        self._limits = limits
        self.name = metric.name
        self.score_range = metric.score_range
        self.labels = metric.labels
        self.mode = metric.mode
        self.prompt_hash = metric.prompt_hash
        self.schema_hash = metric.schema_hash
        self.scoring_version = metric.scoring_version
        if redactor.kinds:  # because redaction changes scores
            self.scoring_version += f", redacted: {' '.join(redactor.kinds)}"
        self.process: OwnProcess | None = getattr(metric, "process", None)

    def select(self, event: QAEvent) -> Inputs:
        """Return the redacted texts that the metric needs; too long ones are cut, for `prepare` to refuse."""
        limits = self._limits
        each = {"question": limits.question, "answer": limits.answer, "other_answer": limits.answer}
        cut = {
            name: text[: most + 1]
            for name, most in each.items()
            if len(text := getattr(event, name) or "") > most
        }
        inputs = self._metric.select(event.model_copy(update=cut) if cut else event)
        return inputs.changed(self._redactor.redact) if self._redactor.kinds else inputs

    def prepare(self, task: JudgeTask) -> ChatRequest | Outcome:
        limits = self._limits
        _check("question", [task.question], limits.question)
        _check("answer", [task.answer], limits.answer)
        _check("answer", [task.other_answer or ""], limits.answer)
        pages = task.context or {}
        texts = [task.reference or "", *pages, *pages.values(), *further_texts(task)]
        _check("context", texts, limits.context)
        return self._metric.prepare(self._redacted(task))

    def interpret(self, task: JudgeTask, reply: str) -> Outcome:
        return self._metric.interpret(self._redacted(task), reply)

    def _redacted(self, task: JudgeTask) -> JudgeTask:
        if not self._redactor.kinds:
            return task
        redact = self._redactor.redact
        labels = {name: redact(value) for name, value in task.labels.items()}
        return task.model_copy(update=Inputs.of(task).changed(redact).of_task() | {"labels": labels})


def _check(name: str, texts: Sequence[str], limit: int) -> None:
    chars = sum(map(len, texts))
    if chars <= limit:
        chars = compared_chars("".join(texts))
    if chars > limit:
        raise EventError(
            "context_too_long",
            f"{name} must be at most {limit} characters (judge.max_{name}_chars), got {chars} or more; "
            "shorten it or raise the limit",
        )


def redactor(kinds: Iterable[Kind]) -> Redactor:
    kinds = tuple(kinds)
    if "names" not in kinds:
        return Redactor(kinds)
    load = partial(load_names, NAMES_MODEL)
    load()
    keep_loaded(load)
    return Redactor(kinds, find_names=find_names)


def find_names(text: str, *, model: str = NAMES_MODEL) -> Iterator[tuple[int, int]]:
    engine = load_names(model)
    end = 0
    for part in _PARTS.finditer(text):
        found = engine.analyze(part[0], language="en", entities=["PERSON"])
        for one in sorted(found, key=lambda one: (one.start, -one.end)):
            start, stop = part.start() + one.start, part.start() + one.end
            if start >= end:
                yield start, stop
                end = stop


@cache
def load_names(model: str) -> Any:
    """Load the engine (half a gigabyte) once, with an installed model or a folder; nothing is downloaded."""
    if importlib.util.find_spec("presidio_analyzer") is None:
        raise JudgeConfigurationError(
            f"judge.redact: names needs Presidio, which is not installed; {_INSTALL}"
        )
    import spacy  # noqa: PLC0415 - heavy and optional
    from presidio_analyzer import AnalyzerEngine, RecognizerRegistry  # noqa: PLC0415
    from presidio_analyzer.nlp_engine import SpacyNlpEngine  # noqa: PLC0415

    # Presidio would download a missing model (half a gigabyte) at worker start.
    if not (spacy.util.is_package(model) or Path(model).is_dir()):
        raise JudgeConfigurationError(
            f"judge.redact: names needs the language model {model}, which is not installed; {_INSTALL}"
        )
    try:
        engine = SpacyNlpEngine(models=[{"lang_code": "en", "model_name": model}])
        engine.load()
        # Only names: the default registry would also build recognizers for many countries' accounts, with
        # warnings.
        registry = RecognizerRegistry(supported_languages=["en"])
        registry.add_nlp_recognizer(engine)
        return AnalyzerEngine(registry=registry, nlp_engine=engine)
    except (ImportError, OSError, ValueError) as error:
        raise JudgeConfigurationError(
            f"judge.redact: names cannot load the language model {model} ({error}); {_INSTALL}"
        ) from error
