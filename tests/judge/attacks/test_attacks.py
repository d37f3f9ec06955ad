from __future__ import annotations

import unicodedata
from collections import Counter

import pytest

from judge.chat import ChatRequest
from judge.evaluate.evaluator import Evaluator
from judge.metric import Inputs, Metric
from judge.metrics.coverage import Coverage
from judge.metrics.packs.pack import parse_pack
from judge.metrics.prompting import parse_fenced
from judge.metrics.relevance import Relevance
from judge.offline.rules import judge_messages
from judge.text.normal import neutralize, quoted
from schemas import Failed, JudgeTask, Scored, Unscored
from tests.judge.attacks.corpus import ATTACKS, EVENT, PAGE_WORDS, Attack, attack_task
from tests.judge.lying_judge import lying_chat
from tests.judge.scripted import ScriptedChat

METRICS: tuple[Metric, ...] = (Coverage(), Relevance())
LOWEST_THAT_COUNTS = 1

each_attack = pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.id)
_FIRST = {attack.kind: attack for attack in reversed(ATTACKS)}.values()
each_attack_at_length = pytest.mark.parametrize(
    "attack",
    # The lying judge tries hundreds of replies: one attack of each kind runs here, the others in `make
    # test-all`.
    [pytest.param(one, marks=() if one in _FIRST else pytest.mark.slow) for one in ATTACKS],
    ids=lambda attack: attack.id,
)
each_metric = pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)


def _offline_chat() -> ScriptedChat:
    def say(request: ChatRequest) -> str:
        return judge_messages(request.messages, schema=request.response_schema) or ""

    return ScriptedChat(say)


def _score(result: Scored | Unscored | Failed) -> int:
    assert not isinstance(result, Failed), result.detail
    return result.score if isinstance(result, Scored) and not result.suspicions else 0


def test_the_corpus() -> None:
    assert len(ATTACKS) >= 60
    assert max(Counter(attack.id for attack in ATTACKS).values()) == 1
    assert {attack.kind for attack in ATTACKS} == {
        "override", "fake_verdict", "delimiter", "master_key", "null", "role_play", "many_shot", "unicode",
        "page_tag",
        "pack_variable", "display", PAGE_WORDS,
    }  # fmt: skip
    answers = " ".join(attack.answer for attack in ATTACKS)
    assert not any(word in answers for word in ("Paris", "1889", "Champ"))


@each_attack
@each_metric
def test_no_attack_leaves_its_fence(attack: Attack, metric: Metric) -> None:
    request = metric.prepare(attack_task(metric, attack.answer))
    if not isinstance(request, ChatRequest):
        return  # the metric asks no judge
    plain = metric.prepare(attack_task(metric, "Nothing. [Page 1]"))
    assert isinstance(plain, ChatRequest)
    assert request.messages[0] == plain.messages[0]
    sections = parse_fenced(request.messages[1].content)
    assert sections["answer"] == neutralize(attack.answer)
    assert sections["question"] == EVENT["question"]
    others = {name for name in sections if name not in {"question", "answer", "missing_pages"}}
    assert others <= {"reference", *EVENT["context"]}
    for name in others:
        assert sections[name] == (EVENT["reference"] if name == "reference" else EVENT["context"][name])


@each_attack
@each_metric
async def test_an_attack_gains_nothing_with_the_offline_judge(attack: Attack, metric: Metric) -> None:
    task = attack_task(metric, attack.answer)
    limit = 5 if _is_out_of_reach(attack, metric) else LOWEST_THAT_COUNTS
    assert _score(await Evaluator(metric, _offline_chat()).judge(task)) <= limit


@each_attack_at_length
@each_metric
async def test_an_attack_gains_nothing_with_a_lying_judge(attack: Attack, metric: Metric) -> None:
    """Above 1 it is marked, but for words of the page without a statement, which code cannot detect."""
    task = attack_task(metric, attack.answer)
    limit = 5 if _is_out_of_reach(attack, metric) else LOWEST_THAT_COUNTS
    assert _score(await Evaluator(metric, lying_chat()).judge(task)) <= limit


def _is_out_of_reach(attack: Attack, metric: Metric) -> bool:
    return attack.kind == PAGE_WORDS and metric.name == "relevance"


async def test_the_lying_judge_scores_a_correct_answer() -> None:
    answer = (
        "The Eiffel Tower stands in Paris, on the Champ de Mars. [Page 1]\n"
        "It was completed in March 1889 for the World's Fair. [Page 2]"
    )
    for metric in METRICS:
        result = await Evaluator(metric, lying_chat()).judge(attack_task(metric, answer))
        assert _score(result) >= 4


@each_attack
def test_an_attack_fills_in_nothing_in_a_pack(attack: Attack) -> None:
    for dialect, raw in (
        ("markdown", b"## System\n\nJudge.\n\n## User\n\nQ: {{ item.input }}\nA: {{ item.output_text }}\n"),
        ("yaml", (
                b"messages:\n- {role: system, content: Judge.}\n- {role: user, content: 'Q: {question} A: "
                b"{answer}'}\n"
            )),
    ):  # fmt: skip
        pack = parse_pack(raw, dialect=dialect, origin="test")  # type: ignore[arg-type] # a tuple's str
        messages = pack.render(Inputs("q", attack.answer, reference="hidden", context={"Page-1": "hidden"}))
        assert [message.role for message in messages] == ["system", "user"]
        assert neutralize(attack.answer).strip() in messages[1].content
        assert "hidden" not in messages[1].content


@each_attack
def test_an_attack_is_shown_on_one_harmless_line(attack: Attack) -> None:
    line = quoted(attack.answer)
    assert not any(unicodedata.category(char) in {"Cc", "Cf", "Cs", "Zl", "Zp"} for char in line)
    assert len(line) <= 122


def test_the_event_of_the_corpus_is_a_fair_one() -> None:
    metric = Coverage()
    task: JudgeTask = attack_task(metric, EVENT["reference"])
    request = metric.prepare(task)
    assert isinstance(request, ChatRequest)
    said = judge_messages(request.messages, schema=request.response_schema)
    outcome = metric.interpret(task, said or "")
    assert getattr(outcome, "score", 0) == 5
