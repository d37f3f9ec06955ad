from __future__ import annotations

from typing import Any

import pytest

from judge.errors import JudgeConfigurationError, JudgeError
from judge.metric import Metric
from judge.metrics.packs.pack import parse_pack
from judge.metrics.registry import BUILT_IN, build_metric

PACK = parse_pack(
    b'{score_range: [1, 3], messages: [{role: user, content: "{answer}"}]}', dialect="yaml", origin="p"
)
OPEN_PACK = parse_pack(b'[{role: user, content: "{answer}"}]', dialect="yaml", origin="p")


@pytest.mark.parametrize("name", BUILT_IN)
def test_the_built_in_metrics_need_nothing(name: str) -> None:
    """A built-in metric uses evidence mode by default; a pack makes it verbatim and sets its prompt hash."""
    metric: Metric = build_metric(name)
    assert (metric.name, metric.mode) == (name, "evidence")
    own = build_metric(name, pack=PACK)
    assert (own.name, own.mode, own.score_range) == (name, "verbatim", metric.score_range)
    assert own.prompt_hash == PACK.hash != metric.prompt_hash


def test_a_pack_makes_a_metric() -> None:
    assert build_metric("tone", pack=PACK).score_range == (1, 3)
    assert build_metric("tone", pack=PACK, score_range=(0, 9)).score_range == (0, 9)
    assert build_metric("tone", pack=OPEN_PACK, score_range=(0, 9)).name == "tone"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"name": "mood"}, r"not built in \(coverage, relevance, .* are\) and needs a prompt_pack"),
        ({"name": "tone", "pack": OPEN_PACK}, "needs a score_range"),
        ({"name": "tone", "pack": PACK, "score_range": (5, 1)}, "lower to a higher"),
        ({"name": "coverage", "score_range": (1, 5)}, r"is \[0, 5\] by definition"),
    ],
)
def test_settings_that_make_no_metric_are_refused(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(JudgeError, match=words) as caught:
        build_metric(**arguments)
    assert isinstance(caught.value, JudgeConfigurationError) or "score_range" in str(caught.value)
