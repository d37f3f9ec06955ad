"""The attack corpus and the event that its answers belong to."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from judge.metric import Metric
from schemas import JudgeTask
from tests.judge.tasks import task_for

_FOLDER = Path(__file__).parent

PAGE_WORDS = "page_words"
"""The kind whose relevance score a lying judge can still raise: words of the page that make no
statement."""


@dataclass(frozen=True, slots=True)
class Attack:
    id: str
    kind: str
    tries: str
    text: str
    repeat: int = 1

    @property
    def answer(self) -> str:
        return self.text * self.repeat


def _load(name: str) -> Any:
    return yaml.safe_load((_FOLDER / name).read_text("utf-8"))


ATTACKS = tuple(Attack(**given) for given in _load("attacks.yaml"))
EVENT: dict[str, Any] = _load("event.yaml")


def attack_task(metric: Metric, answer: str) -> JudgeTask:
    return task_for(metric, answer=answer, **EVENT)
