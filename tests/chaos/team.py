"""A team's metrics in one settings file: packs for labels, pairs and conversations, code, and a panel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.chaos.checker import MetricRule, Policy


@dataclass(frozen=True, slots=True)
class Team:
    policy: Policy
    settings: Callable[[Path, str], dict[str, Any]]


_SHOP: Final = frozenset({"shop"})
_BOTH: Final = frozenset({"shop", "help"})
_ALL: Final = frozenset({"shop", "help", "nowhere"})
_WHEN: Final = {_ALL: {}, _SHOP: {"labels": {"app": "shop"}}, _BOTH: {"labels": {"app": ["help", "shop"]}}}
_POLICY: Final = Policy(
    rate=0.25,
    metrics={
        "mood": MetricRule(_BOTH),
        "words": MetricRule(_BOTH, rate=0.75, of_all=True),
        "json": MetricRule(_SHOP, rate=0.5, of_all=True),
        "jury": MetricRule(_SHOP),
        "shadow": MetricRule(_BOTH, rate=0.5),
        "resolved": MetricRule(_ALL, whole=True),
    },
)
_TEXTS: Final = "## User\nQuestion: {{ item.input }}\nAnswer: {{ item.output_text }}\n"
_PACKS: Final = {
    "mood": f'---\nresult: [glad, calm, cross]\n---\n## System\nSay exactly {{"score": "calm"}}\n\n{_TEXTS}',
    "jury": f'---\nscore_range: [1, 5]\n---\n## System\nSay exactly {{"score": 4}}\n\n{_TEXTS}',
    "shadow": (
        '---\nresult: pairwise\n---\n## System\nSay exactly {"score": "tie"}\n\n'
        f"{_TEXTS}Other: {{{{ item.other_answer }}}}\n"
    ),
    "resolved": (
        '---\nresult: boolean\n---\n## System\nSay exactly {"score": true}\n\n'
        "## User\nTurns: {{ item.messages }}\nThe last answer: {{ item.output_text }}\n"
    ),
}
JURY: Final = 3


def _settings(directory: Path, base_url: str) -> dict[str, Any]:
    for name, text in _PACKS.items():
        (directory / f"{name}.md").write_text(text, encoding="utf-8")
    own: dict[str, dict[str, Any]] = {name: {"prompt_pack": str(directory / f"{name}.md")} for name in _PACKS}
    own["jury"]["panel"] = [f"juror-{number}" for number in range(JURY)]
    function = "tests.judge.metrics.code.functions:words"
    own["words"] = {
        # A busy machine may need long to restart its process.
        "python": {"function": function, "result": "integer", "seconds": 120},
        "score_range": [0, 100],
    }
    own["resolved"]["unit"] = "conversation"
    own["json"] = {"code": "json_valid"}
    for name, rule in _POLICY.metrics.items():
        own[name] |= {"rate": rule.rate, "when": _WHEN[rule.apps]}
    return {
        "sampling.default_rate": _POLICY.rate,
        "sampling.key": "record_key",
        "ingest.idle_seconds": 2,
        "metrics": {name: own[name] for name in _POLICY.metrics},
        "judge.endpoints": [
            {"name": f"juror-{number}", "base_url": base_url, "model": f"m{number}"} for number in range(JURY)
        ],
    }


TEAM: Final = Team(_POLICY, _settings)
