"""`judgestream demo` as a process, from the start to a noticed drop."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from judge.metrics.registry import BUILT_IN, metric_names
from streams.demo import run as demo_run
from streams.demo.events import own_records
from streams.demo.run import DemoPlan, run_demo
from streams.demo.screen import PlainDisplay
from streams.settings.judge import EndpointSettings, PriceSettings
from tests.streams.cli.commands.judge_server import judge_server
from tests.streams.cli.processes import call, judgestream, running

SAMPLED_TRACE_ID = "0" * 18 + "f" * 14
"""The last 14 digits decide; all ones are above any threshold, so such an event is always sampled."""


def answer(asked: dict[str, Any]) -> str:
    schema = asked.get("response_format", {}).get("json_schema", {}).get("name")
    if schema == "coverage_evidence":
        organization = {"justification": "alike", "similar": True}
        return json.dumps({"facts": [], "conclusions": [], "terms": [], "organization": organization})
    return json.dumps({"claims": [], "justification": "none", "score": 3})


def parts_add_up(summary: dict[str, Any]) -> bool:
    events, results, tasks = summary["events"], summary["results"], summary["tasks"]
    outcomes = ("undecodable", "unroutable", "skipped", "sampled")
    return bool(
        events["read"] == sum(events[name] for name in outcomes)
        and tasks["total"] == sum(results.values()) + tasks["dead_letters"]
        and summary["dead_letters"] == events["undecodable"] + events["unroutable"] + tasks["dead_letters"]
    )


async def test_notices_that_answers_got_worse() -> None:
    """OPENAI_API_KEY alone changes nothing: the offline judge judges, which costs nothing."""
    ended = await judgestream("demo", "--events", "300", "--json", env={"OPENAI_API_KEY": "sk-secret"})
    assert ended.code == 0, ended.err
    summary = json.loads(ended.out)
    assert {"dead_letters", "seconds"} <= summary.keys()
    assert (summary["events"]["read"], summary["identity_holds"]) == (300, True)
    assert parts_add_up(summary)
    # A tenth of the events is sampled with 1, the rest with 0.5: 165 expected, standard deviation about 8.
    assert 120 < summary["events"]["sampled"] < 210
    assert summary["events"]["undecodable"] > 0
    assert summary["means"].keys() == {"coverage", "relevance"}
    for sides in summary["means"].values():
        assert sides["after"] < sides["before"] - 0.5
    assert summary["alerts"] >= 1
    # One bad deployment is one incident, which the headline names.
    [incident] = summary["incidents"]
    assert incident["alerts"] == summary["alerts"]
    assert "prompt_version=v8" in incident["headline"]
    assert summary["tokens"] > 0
    told = (summary["results"]["failed"], summary["cost_usd"], summary["judge"])
    assert told == (0, 0, "offline-rules-1")
    assert "sk-secret" not in ended.out + ended.err
    # Progress is written to standard error.
    assert "in memory, loopback only" in ended.err
    assert "ALERT drop" in ended.err


@pytest.mark.slow
async def test_an_events_file_is_served_as_it_is(tmp_path: Path) -> None:
    """By each metric of the library, if they are asked for."""

    def line(**fields: Any) -> bytes:
        event = {"question": "Where?", "answer": "In Paris.", "reference": "In Paris."}
        return json.dumps(event | fields | {"trace_id": SAMPLED_TRACE_ID}).encode()

    told = [{"role": "system", "content": "Answer in whole sentences. Never mention prices."}]
    good = [line(**json.loads(record.value), messages=told) for record in own_records(20)]
    no_event = json.dumps({"event_id": "x", "trace_id": SAMPLED_TRACE_ID}).encode()
    bad = [b"not json", no_event, b"\xff\xfe\x00", b"[]", b'{"event_id": "cut off']
    other = [line(event_id="no metric fits", reference=None), line(event_id="l", question="x" * 5_000_000)]
    file = tmp_path / "events.jsonl"
    file.write_bytes(b"\n".join([*good, *bad, *other, b""]) + b"\n")
    ended = await judgestream("demo", "--events-file", str(file), "--events", "40", "--json")
    assert ended.code == 0, ended.err
    assert "has 27 events" in ended.err
    summary = json.loads(ended.out)
    assert parts_add_up(summary)
    # Undecodable are the five bad lines and the one above the size limit.
    counts = {"read": 27, "undecodable": 6, "unroutable": 1, "skipped": 0, "sampled": 20}
    assert summary["events"] == counts
    assert summary["results"]["failed"] == 0
    library = metric_names()[len(BUILT_IN) :]
    metrics = [part for name in library for part in ("--metric", name)]
    ended = await judgestream("demo", *metrics, "--events-file", str(file), "--events", "8", "--json")
    assert ended.code == 0, ended.err
    summary = json.loads(ended.out)
    assert parts_add_up(summary)
    assert summary["events"]["read"] == summary["events"]["sampled"] == 8
    assert sum(summary["results"].values()) == 80
    assert summary["results"]["failed"] == 0
    assert len(library) == 10
    assert {name for name, sides in summary["means"].items() if any(sides.values())} == set(library)


async def test_a_real_endpoint_takes_the_place_of_the_offline_judge() -> None:
    """One that refuses the key ends the demo."""
    async with judge_server(answer, models=("only-one",)) as server:
        env = {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "sk-secret"}
        server.status = 401
        refused = await judgestream("demo", "--events", "8", "--json", env=env | {"OPENAI_MODEL": "m"})
        assert (refused.code, refused.out) == (2, "")
        assert "error: " in refused.err
        server.status = 200
        server.requests.clear()
        ended = await judgestream("demo", "--events", "8", "--json", env=env)
        assert ended.code == 0, ended.err
        assert {request["model"] for request in server.requests} == {"only-one"}
        assert set(server.keys) == {"Bearer sk-secret"}
    summary = json.loads(ended.out)
    assert summary["identity_holds"] is True
    assert summary["judge"] == f"only-one at {server.url}"
    # The model's price is unknown, so the cost is null, not 0.
    assert summary["cost_usd"] is None
    assert "calls cost money" not in ended.err, "an endpoint on this machine costs nothing"
    assert "sk-secret" not in ended.out + ended.err


@pytest.mark.parametrize(
    ("arguments", "env", "words"),
    [
        (["--model", "m"], {}, "OPENAI_API_KEY: is required with --model"),
        (["--model", "m", "--base-url", "http://127.0.0.1:9/v1"], {}, "check that it runs, --base-url"),
        ([], {"OPENAI_MODEL": "m"}, "OPENAI_API_KEY: is required with OPENAI_MODEL"),
    ],
)
@pytest.mark.usefixtures("no_endpoint")
def test_a_judge_that_cannot_be_asked_ends_the_demo_at_once(
    arguments: list[str],
    env: dict[str, str],
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    assert call("demo", *arguments) in {1, 2}
    said = capfd.readouterr().err
    assert words in said
    assert "in memory" not in said, "nothing was started"


async def test_an_outage_is_shown_with_its_reason() -> None:
    async with judge_server(lambda _: "ready") as server:
        arguments = ("demo", "--model", "m", "--base-url", server.url)
        async with running(*arguments, env={"OPENAI_API_KEY": "k"}) as demo:
            lines: list[str] = []
            while not (lines and lines[-1].startswith("JUDGE ")):
                lines.append(await demo.line())
                server.status = 402
            ended = await demo.stop(signal.SIGINT)
    assert "Check the account's balance" in lines[-1]
    assert "stops at 1,000,000 tokens" in "".join(lines), "no price is known"
    assert ended.code == 0, ended.err


async def test_the_budget_ends_the_demo_with_a_summary(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a known price the demo stops when --max-usd is spent: 110 tokens a verdict at $100 a million."""
    monkeypatch.setattr(demo_run, "PAID_RATE", 20.0)
    shown: list[str] = []
    async with judge_server(answer) as server:
        price = PriceSettings(input=100, output=100)
        endpoint = EndpointSettings(
            name="openai", base_url=server.url, model="m", usd_per_million_tokens=price
        )
        plan = DemoPlan(
            events=None, lines=None, endpoint=endpoint, judge_latency_seconds=0,
            started=time.monotonic(), max_usd=0.05,
        )  # fmt: skip
        values, early = await run_demo(plan, PlainDisplay(shown.append), asyncio.Event())
    assert (early, values["limit"]) == ("limit", "$0.05 (--max-usd)")
    assert "stops at $0.05 (--max-usd)" in shown[0]
    assert values["cost_usd"] is not None
    # Verdicts that begin together may each take two repair turns: three calls where one was reckoned with.
    assert 0.04 < values["cost_usd"] < 3 * 0.05 + 0.033


async def test_a_judge_that_hangs_does_not_hold_up_the_end() -> None:
    async with running("demo", "--judge-latency-seconds", "600") as demo:
        while "judged 0, lag" not in (line := await demo.line()) or "sampled 0" in line:
            pass
        ended = await asyncio.wait_for(demo.stop(signal.SIGINT), 20)
    assert ended.code == 0, ended.err
    assert "tasks in flight" in ended.out
    assert "outcomes of the events" in ended.out
    # A machine that stands still for 8 s has warnings there, too.
    assert "Traceback" not in ended.err


@pytest.mark.slow
async def test_an_interrupt_while_it_starts_ends_well() -> None:
    async with running("demo", "--events", "300") as demo:
        assert "in memory, loopback only" in await demo.line()
        ended = await demo.stop(signal.SIGINT)
    assert (ended.code, ended.err) == (130, "")
