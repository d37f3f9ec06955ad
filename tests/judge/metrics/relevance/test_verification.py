"""Proven errors of a relevance verdict lower the score; suspicions only mark it."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from judge.chat import ChatRequest
from judge.endpoints.clients import ScriptedChat
from judge.errors import JudgeConfigurationError
from judge.evaluate.evaluator import Evaluator
from judge.metrics.relevance import Relevance
from judge.offline.server import OfflineChat
from schemas import Scored
from tests.judge.replies import listed_claim, relevance_reply
from tests.judge.tasks import make_task

PAGES = {
    "Page-1": "The tower is **330 metres** tall.\nIt was completed in 1889.",
    "Page-2": "The lift is safe.",
}


@pytest.mark.parametrize("pattern", ["(", r"(.)\1+", r"(?<=a)b", "a" * 501])
def test_a_pattern_that_re2_cannot_read_is_refused(pattern: str) -> None:
    """Back-references, look-around and long patterns are refused at construction."""
    with pytest.raises(JudgeConfigurationError, match="citation_pattern"):
        Relevance(citation_pattern=pattern)


async def test_an_invented_quotation_gets_one_repair_turn() -> None:
    """The repair turn names the quotation; a second invention loses the match."""
    good = listed_claim("The tower is 330 metres tall.", [1], "330 metres** tall")
    bad = {**good, "page_span": "It is the tallest of all towers"}
    task = make_task("relevance", answer="The tower is 330 metres tall. [Page 1]", context=PAGES)
    for second, score in ((good, 5), (bad, 1)):
        replies = iter(json.dumps(relevance_reply([one])) for one in (bad, second))
        asked: list[str] = []

        def say(request: ChatRequest, asked: list[str] = asked, replies: Iterator[str] = replies) -> str:
            asked.append(request.messages[-1].content)
            return next(replies)

        result = await Evaluator(Relevance(), ScriptedChat(say)).judge(task)
        assert isinstance(result, Scored)
        assert (result.score, len(asked)) == (score, 2)
        assert "It is the tallest of all towers" in asked[1]


async def test_the_offline_judge_knows_documents_by_name() -> None:
    answer = "The tower is 330 metres tall. (source: handbook)"
    task = make_task(
        "relevance", question="How tall is the tower?", answer=answer,
        context={"Page-2 (handbook.pdf)": "The tower is 330 metres tall."},
    )  # fmt: skip
    result = await Evaluator(Relevance(), OfflineChat()).judge(task)
    assert isinstance(result, Scored)
    assert result.score == 5
