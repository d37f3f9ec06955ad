from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from judge.endpoints.options import EndpointOptions
from judge.endpoints.pool import EndpointPool
from judge.evaluate.guard import GuardedMetric
from judge.metrics.base import Scale, read_scale
from judge.metrics.code import CodeMetric, FunctionMetric
from schemas import Failed, JudgeTask, Scored, Unscored
from tests.integration.deadlines import until
from tests.judge.scripted import ScriptedChat
from tests.judge.tasks import guarded, make_task

HERE = "tests.judge.metrics.code.functions"
PATIENT = 60.0
"""A time limit in seconds that a sound function keeps on a busy machine."""


def stack() -> EndpointPool:
    return EndpointPool([EndpointOptions(ScriptedChat([]))])


def metric(
    name: str, scale: Scale, *, seconds: float = PATIENT, memory_mb: int = 256, module: str = HERE
) -> GuardedMetric:
    return guarded(FunctionMetric(name, f"{module}:{name}", scale, seconds=seconds, memory_mb=memory_mb))


def task(name: str) -> JudgeTask:
    return make_task(name, answer="one two please").model_copy(update={"labels": {"app": "shop"}})


async def test_a_function_judges_in_a_process_of_its_own() -> None:
    wide = Scale((0, 10_000_000), "number")
    labels = read_scale(["polite", "curt"], (0, 1))
    async with stack() as judging:
        words = await judging.judge(metric("words", wide)).judge(task("words"))
        decimal = await judging.judge(metric("decimal", wide)).judge(task("decimal"))
        polite = await judging.judge(metric("polite", labels)).judge(task("polite"))
        judge = judging.judge(metric("process", wide))
        pids = [await judge.judge(task("process")) for _ in range(2)]
        child = judge._process._process  # type: ignore[union-attr]  # it has started
        nothing = await judging.judge(metric("nothing", wide)).judge(task("nothing"))
    assert isinstance(words, Scored)
    assert (words.value, words.judge, words.cost_usd, words.evaluator.model) == (3.0, None, 0.0, "code")
    assert isinstance(decimal, Scored)
    assert decimal.value == 0.25
    assert isinstance(polite, Scored)
    assert (polite.value, polite.score) == ("polite", 1)
    assert polite.verdict["justification"] == "event-1 from shop"
    assert [type(one) for one in pids] == [Scored, Scored]
    assert pids[0].value == pids[1].value != os.getpid()  # type: ignore[union-attr]  # both are scored
    assert isinstance(nothing, Unscored)
    assert child is not None
    assert child.poll() is not None, "a closed pool leaves no process"


async def test_memory_of_the_parent_does_not_count_for_the_child() -> None:
    bytearray(100_000_000)
    async with stack() as judging:
        judge = judging.judge(metric("process", Scale((0, 10_000_000), "number"), memory_mb=40))
        pids = [await judge.judge(task("process")) for _ in range(2)]
    first, second = (one.value for one in pids if isinstance(one, Scored))
    assert first == second


async def test_other_processes_of_a_function_say_nothing_and_end_with_it() -> None:
    wide = Scale((0, 10_000_000), "number")
    async with stack() as judging:
        judge = judging.judge(metric("forks", wide))
        said = ["one two", "one", "one two three"]
        results = [await judge.judge(make_task("forks", answer=answer, reference="r")) for answer in said]
        started = await judging.judge(metric("starts", wide)).judge(task("starts"))
    assert [one.value for one in results if isinstance(one, Scored)] == [2.0, 1.0, 3.0]
    assert isinstance(started, Scored)
    pid = started.value
    assert isinstance(pid, float)
    await until(lambda: not _runs(int(pid)), "the end of what it has started")


def _runs(pid: int) -> bool:
    try:
        return " Z " not in Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False


@pytest.mark.parametrize(
    ("name", "module", "seconds", "detail"),
    [
        ("speechless", HERE, PATIENT, f"{HERE}:speechless: Speechless"),
        ("sleeps", HERE, 0.5, "it took longer than 0.5 s"),
        ("raises", HERE, PATIENT, f"{HERE}:raises: KeyError: 'event-1'"),
        ("exits", HERE, PATIENT, "its process ended with exit code 7"),
        ("leaves", HERE, PATIENT, "its process ended with exit code 3"),
        ("eats", HERE, PATIENT, "it needed more than 256 MiB of memory"),
        ("rubbish", HERE, PATIENT, "the metric must give a number from 0 to 1, got dict {'score': 5}"),
        (
            "score",
            "tests.judge.metrics.code.breaks_at_import",
            PATIENT,
            "its process did not start: ended with exit code 9",
        ),
    ],
)
async def test_a_broken_function_fails_alone(name: str, module: str, seconds: float, detail: str) -> None:
    async with stack() as judging:
        broken = judging.judge(metric(name, Scale((0, 1), "number"), seconds=seconds, module=module))
        sound = judging.judge(guarded(CodeMetric("json", "json_valid")))
        failing = asyncio.create_task(broken.judge(task(name)))
        for _ in range(20):
            assert isinstance(await sound.judge(task("json")), Scored)
        failed = await failing
    assert isinstance(failed, Failed)
    assert failed.error_type == "metric_error"
    assert detail in failed.detail
