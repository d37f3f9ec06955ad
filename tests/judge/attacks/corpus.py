"""The attacks, and the event that they answer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from judge.metric import Metric
from schemas import JudgeTask
from tests.judge.built_tasks import task_for

_FOLDER = Path(__file__).parent

PAGE_WORDS = "page_words"
"""The kind that a judge who lies can still lift for relevance: words that stand on the page, without a
statement."""


@dataclass(frozen=True, slots=True)
class Attack:
    """An answer that says nothing and wants a score."""

    id: str
    kind: str
    tries: str
    text: str
    repeat: int = 1

    @property
    def answer(self) -> str:
        """The answer in full."""
        return self.text * self.repeat


def _load(name: str) -> Any:
    return yaml.safe_load((_FOLDER / name).read_text("utf-8"))


ATTACKS = tuple(Attack(**given) for given in _load("attacks.yaml"))
EVENT: dict[str, Any] = _load("event.yaml")


def attack_task(metric: Metric, answer: str) -> JudgeTask:
    """The task that a metric gets for an answer to the corpus's event."""
    return task_for(metric, answer=answer, **EVENT)
