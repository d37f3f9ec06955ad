"""A judge that changes is found and named: by anchors, beside live traffic, and by judging again."""

from __future__ import annotations

import asyncio
import json
import signal
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest

from schemas import Anchor, Label, Selection, result_id
from streams.cli.past import candidates, enrol, remove_anchors, tell_status
from streams.cli.running import CommandError
from streams.cli.session import Session
from streams.kafka.topics.table import AGENTS
from streams.store.database import read_store
from tests.integration.deadlines import until
from tests.integration.processes import SOON_MISSED, Endpoint, process
from tests.integration.stage import Stage, event, total

LABELLED, BEFORE, AFTER = 25, 100, 900
EVERYONE = (*AGENTS, "store")


def score_by(endpoint: Endpoint, *, kinder: int) -> None:
    endpoint.reply = lambda _, text: json.dumps({"score": (2 if "to label" in text else 4) + kinder})


@pytest.fixture
def stage(bootstrap_servers: str, tmp_path: Path, endpoint: Endpoint) -> Stage:
    endpoint.latency_seconds = 0.0
    score_by(endpoint, kinder=0)
    stage = Stage(bootstrap_servers, tmp_path, base_url=endpoint.url)
    stage.changes = {"store.path": str(tmp_path / "store.sqlite3")}
    return stage


async def label(stage: Stage, count: int) -> None:
    """Wait until the store has the labels, their verdicts and their texts."""
    labels = []
    about = {"metric": "tone", "who": "ann", "labelled_at": datetime.now(UTC)}
    for number in range(count):
        name = result_id(topic=stage.topic("events"), event_id=f"l{number}", metric="tone", replay_id=None)
        names = {"label_id": name, "result_id": name, "event_id": f"l{number}"}
        selection = Selection(kind="chosen")
        labels.append(Label(**names, **about, score=1 + number % 4, selection=selection))
    await stage.produce([one.model_dump_json().encode() for one in labels], topic="labels")

    def stored() -> bool:
        with read_store(stage.settings.store.path) as snapshot:
            return len(candidates((), snapshot, "tone")) == count

    await until(stored, "labels in the store")


@pytest.mark.slow
async def test_a_judge_that_becomes_kinder_is_found_and_no_live_number_has_an_anchor(
    stage: Stage, endpoint: Endpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    """With each twentieth live result an anchor (score 2) is judged again; live scores are 4, then 5."""
    call, stop = Session(stage.settings), asyncio.Event()
    async with stage.worker(None, agents=EVERYONE) as (_, registry):
        await stage.produce([event(n, event_id=f"l{n}", question="to label") for n in range(LABELLED)])
        await stage.judges({f"l{n}" for n in range(LABELLED)})
        before = endpoint.answered
        await label(stage, 19)
        with pytest.raises(CommandError, match=r"19 labelled answers .* fewer than 20 .* judgestream review"):
            await enrol(call, "tone", stop, count=100, max_usd=None, yes=True)
        await label(stage, LABELLED)
        await enrol(call, "tone", stop, count=100, max_usd=None, yes=True)
        assert endpoint.answered == before + 3 * LABELLED
        anchors = [Anchor.model_validate_json(one.value) for one in await stage.read("anchors")]
        assert {one.task.event_id for one in anchors} == {f"l{n}" for n in range(LABELLED)}
        assert {one.scores for one in anchors} == {(2.0, 2.0, 2.0)}
        # Labels 1 to 4 on a scale of 1 to 5: those of 1 and 2 are bad, 13 of 25.
        assert sum(one.known_bad for one in anchors) == 13
        await stage.produce([event(n) for n in range(BEFORE)])
        await stage.judges({f"e{n}" for n in range(BEFORE)})
        score_by(endpoint, kinder=1)
        await stage.produce([event(n) for n in range(BEFORE, BEFORE + AFTER)])

        def gauge(name: str) -> float | None:
            fingerprint = anchors[0].evaluator.fingerprint
            where = {"metric": "tone", "fingerprint": fingerprint}
            return registry.get_sample_value(f"judgestream_monitor_anchors_{name}", where)

        await until(lambda: gauge("shifted") == 1.0, "the shift")
        await stage.judges({f"e{n}" for n in range(BEFORE + AFTER)})
        calls = (LABELLED + BEFORE + AFTER) // 20 - LABELLED // 20
        await until(lambda: (gauge("calls") or 0) >= calls - 1, "the calls of all anchors")
        mean = gauge("mean")
        assert mean is not None
        assert 0.8 < mean <= 1.0
        live = LABELLED + BEFORE + AFTER
        assert total(registry, "judgestream_results_total") == live
        assert total(registry, "judgestream_score_weight_total") == live
        weighted = 2 * LABELLED + 4 * BEFORE + 5 * AFTER
        assert total(registry, "judgestream_score_weighted_total") == weighted
        again = [one for one in await stage.results() if one.replay_id is not None]
        assert {one.event_id for one in again} <= {f"l{n}" for n in range(LABELLED)}
        assert len({one.result_id for one in again}) == len(again)
    assert await stage.alerts() == []
    capsys.readouterr()
    await tell_status(call, None, as_json=False)
    assert "tone: kinder by 1.00 since" in capsys.readouterr().out
    await remove_anchors(call, ["tone"], yes=True)
    await tell_status(call, None, as_json=False)
    assert capsys.readouterr().out.startswith("no anchors")


CALM, FALLEN = 400, 360


@pytest.mark.slow
async def test_a_sigkill_amid_a_burst_has_no_task_written_twice(stage: Stage, endpoint: Endpoint) -> None:
    """The next worker says the word. Old answers are beside the budget, which live ones exhaust."""
    stage.changes = {**SOON_MISSED, "monitor": {"labels": [], "baseline_samples": 20}}
    stage.changes["judge.budget.calls_per_day"] = CALM + FALLEN
    endpoint.latency_seconds = 0.02
    endpoint.reply = lambda call, _: json.dumps({"score": 4 + call % 2 - 2 * (call > CALM)})
    async with process(stage) as worker:
        await stage.produce([event(number) for number in range(CALM)])
        await stage.holds(scores=CALM, observations=CALM)
        await stage.produce([event(number) for number in range(CALM, CALM + 60)])
        await until(lambda: endpoint.answered >= CALM + 60 + 20, "some old answers judged again")
        await worker.end(signal.SIGKILL)

    async def explained() -> bool:
        return any(alert.word is not None for alert in await stage.alerts())

    async with process(stage):
        await stage.produce([event(number) for number in range(CALM + 60, CALM + FALLEN)])
        await until(explained, "an alert has its word")
        said = {alert.alert_id: alert.word for alert in await stage.alerts() if alert.word is not None}
        (word,) = said.values()
        # By chance the product's interval excludes 0 in one of eighty runs; the judge's never has 0.
        assert word.said in ("judge", "both")
        assert word.judge is not None
        assert word.judge.low > 1.5
        tasks = Counter(task.result_id for task in await stage.tasks("tone") if task.replay_id is not None)
        assert (len(tasks), set(tasks.values())) == (160, {1})
        again = {result.result_id for result in await stage.results() if result.replay_id is not None}
        assert again == set(tasks)
