"""What people would give, from the labels of a store and of files."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from random import Random

import pytest
from prometheus_client import CollectorRegistry

from schemas import Scored, Selection
from streams.embedded.broker import EmbeddedBroker
from streams.settings.tree import Settings
from streams.store.query import Filter
from streams.store.views.calibration import JudgedSeries, calibrations
from streams.store.views.review import again, choose, expected_errors
from streams.telemetry.exposition import TEXT, expose
from streams.worker.agents import add_agents
from streams.worker.worker import Worker
from tests.integration.deadlines import until
from tests.streams.results import at, scored
from tests.streams.store.records import TOPICS, StoreFile, result_record
from tests.streams.store.views.serving import NOW, SCALES, get, label, review

_KNOWN = Selection(kind="random", probability=0.5, policy="random/1", drawn=40, drawn_at=NOW)


def _judged(store: StoreFile) -> list[Scored]:
    """Store answers to which the judge gives 2 and 4 in turn."""
    made = [scored(n, 2 + 2 * (n % 2), labels={"app": "a" if n % 4 < 2 else "b"}) for n in range(80)]
    store.write(*made)
    return made


def _found(store: StoreFile) -> JudgedSeries:
    with store.snapshot() as snapshot:
        [found] = calibrations(snapshot, SCALES)
    return found


def test_people_s_mean_and_the_judge_s(store: StoreFile) -> None:
    """Every second pair labelled, one point below the judge: people would give 2, the judge says 3.

    The bias is +1 for both apps, the labels of a second reviewer of ten answers are no further answers.
    """
    made = _judged(store)
    label(store.path, made[::4] + made[3::4], -1, _KNOWN)
    label(store.path, made[::4][:10], -1, _KNOWN, who="bob")
    found = _found(store)
    mean = found.estimate()
    assert mean is not None
    assert (mean.labels, round(mean.mean, 9), mean.judge) == (40, 2, 3)
    assert mean.low < 2 < mean.high < 3
    assert [(name, bias, count) for name, bias, _, count in found.biases()] == [
        ("all", 1, 40), ("app=a", 1, 20), ("app=b", 1, 20),
    ]  # fmt: skip
    assert found.reviewers() == (10, None)  # all ten are 1
    assert found.sentence().startswith("People would give 2.00 (1.")
    assert found.sentence().endswith("), the judge says 3.00.")
    assert "random/1: 0 of 50 labels equal" in "\n".join(found.lines())


async def test_the_store_s_worker_exposes_it(store: StoreFile) -> None:
    made = _judged(store)
    label(store.path, made[::2] + made[1::4], -1, _KNOWN)
    store.write(result_record(scored(900, 4, metric="near", fingerprint="f2"), 900))
    async with EmbeddedBroker(topics={TOPICS.scores: 1}) as broker:
        kept = {"path": store.path, "keep_days": 3650}
        kafka = {"bootstrap_servers": broker.bootstrap_servers}
        settings = Settings.model_validate({"kafka": kafka, "store": kept})
        worker = Worker(settings, agents=["store"], registry=CollectorRegistry(), env={})
        add_agents(worker)
        agent = worker.store
        assert agent is not None
        task = asyncio.create_task(agent.run())
        await until(lambda: bool(agent.people), "estimates")
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    text = expose(worker.metrics.registry, TEXT).decode()
    found = dict(re.findall(r'judgestream_people_(\w+){fingerprint="f1",metric="relevance"} (\S+)', text))
    estimate = _found(store).estimate()
    assert estimate is not None
    assert {name: float(value) for name, value in found.items()} == {
        name: getattr(estimate, name) for name in ("mean", "low", "high", "judge")
    }
    assert 'judgestream_people_mean{fingerprint="f2"' not in text


@pytest.mark.parametrize(
    ("count", "selection", "says"),
    [
        (20, _KNOWN, "20 labels with a known probability count as 20, 30 are needed; about 10 more"),
        (40, Selection(kind="incident"), "40 labelled answers were not chosen with a known probability"),
        (40, Selection(kind="random", probability=0.5), "not chosen with a known probability"),
        (40, _KNOWN.model_copy(update={"frame": "labels=(('app', 'a'),)"}), "not chosen with a known"),
    ],
    ids=["few", "incident", "old", "limited"],
)  # fmt: skip
def test_no_estimate_without_labels_that_speak_for_all(
    store: StoreFile, count: int, selection: Selection, says: str
) -> None:
    label(store.path, _judged(store)[:count], 0, selection)
    found = _found(store)
    assert found.estimate() is None
    assert says in (found.refusal() or "")
    assert found.as_json()["people"] is None


def test_a_stratum_without_a_label_and_labels_of_the_worst_are_refused(store: StoreFile) -> None:
    made = _judged(store)
    label(store.path, made[::2], 0, _KNOWN)
    said = "the judge gives the labelled answers 2.00 and all 3.00"
    assert said in (_found(store).refusal() or "")
    store.write(result_record(scored(900, 4, stratum="gold"), 900))
    assert "no label of answers by the sampling rule gold" in (_found(store).refusal() or "")


def test_draws_of_a_growing_store_are_joined(store: StoreFile) -> None:
    """20 early answers are drawn with 0.5, later 20 of all with 0.25: the early ones could be drawn twice.

    An early answer has the weight 1 / 0.5 * 20/40 = 1 of the first draw and 1 / 0.25 * 20/40 = 2
    of the second, a late one 1 / 0.25 * 20/20 = 4.
    """
    made, late = _judged(store), [scored(number, 2, seconds=4000) for number in range(1000, 1080)]
    store.write(*late)
    first = _KNOWN.model_copy(update={"drawn": 20, "drawn_at": made[-1].times.judged_at})
    second = _KNOWN.model_copy(update={"drawn": 20, "probability": 0.25, "drawn_at": at(7200)})
    label(store.path, made[:20], 0, first)
    label(store.path, [*made[40:50], *late[:10]], 0, second)
    weights = Counter(one.weight for one in _found(store).items)
    assert weights == {1: 20, 2: 10, 4: 10}


@pytest.mark.parametrize("kind", ["failed", "error"])
def test_draws_keep_their_probability(store: StoreFile, kind: str) -> None:
    """Of 10 failed and 70 passed, 20 drawn: all failed and 10 passed of 70; by error all alike at first."""
    made = [scored(number, 1 if number < 10 else 4) for number in range(80)]
    store.write(*made)
    scores = {one.result_id: one.score for one in made}
    with store.snapshot() as snapshot:
        tasks = choose(snapshot, Filter(), kind=kind, size=20, start=b"\x40" * 16, scales=SCALES, now=NOW)
    drawn = Counter((scores[task.result_id], round(task.selection.probability or 0, 4)) for task in tasks)
    assert drawn == ({(1, 1.0): 10, (4, 0.1429): 10} if kind == "failed" else drawn)
    assert len({task.result_id for task in tasks}) == 20
    assert {task.selection.policy for task in tasks} == {f"{kind}/1"}
    assert kind == "failed" or {p for _, p in drawn} == {0.25}


async def test_old_labels_are_asked_again_and_progress_is_shown(store: StoreFile) -> None:
    """A queue of 20 has one old label of the person's own; half an interval is reached after some more."""
    made = _judged(store)
    label(store.path, made[:40:2], -1, _KNOWN)
    label(store.path, made[1:40:2], 0, _KNOWN)
    with store.snapshot() as snapshot:
        [task] = again(snapshot, "ann", None, 20, Random(1))
        assert task.result_id in {one.result_id for one in made[:40]}
        assert task.selection == Selection(kind="chosen", policy="again/1")
        assert again(snapshot, "bob", None, 20, Random(1)) == []
        # 20 of 40 are off by one: (20 + 1) / 41; by score (20 + 5 * 21 / 41) / 25 and (5 * 21 / 41) / 25.
        found = expected_errors(snapshot)
        assert found == {
            ("relevance", None): pytest.approx(21 / 41),
            ("relevance", 2): pytest.approx((20 + 105 / 41) / 25),
            ("relevance", 4): pytest.approx(105 / 41 / 25),
        }
    async with review(store.path) as (session, url, _):
        queue = await get(session, url, "/review/api/queue?metric=relevance&size=20&aim=0.2")
    [said] = queue["progress"]
    assert said.startswith("People would give 2.5")
    assert " more for ±0.2." in said or said.endswith("cannot reach that.")
    assert sum(one["policy"] == "again/1" for one in queue["tasks"]) <= 1
