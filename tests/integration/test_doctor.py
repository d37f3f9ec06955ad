"""The doctor with real brokers and workers: every fault is named and nothing is changed."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from aiokafka.admin import NewTopic
from aiokafka.protocol.admin import DescribeGroupsRequest_v1
from aiokafka.protocol.group import HeartbeatRequest_v1

from judge.chat import OFFLINE_MODEL
from judge.offline.server import OfflineJudge
from streams.doctor.examination import Examination
from streams.doctor.findings import Diagnosis, Finding
from streams.embedded.broker import EmbeddedBroker
from tests.integration.admin import kafka_admin
from tests.integration.conftest import RunningBroker
from tests.integration.kafka import free_ports
from tests.integration.stage import Stage, event
from tests.integration.wire_client import WireClient
from tests.judge.scripted import ScriptedChat
from tests.streams.cli.processes import Service, judgestream, running

MONITORS = ("scores", "alerts", "observations", "anchors", "monitor_state")
NEEDED = ("events", "tasks.tone", "dead", *MONITORS)


@pytest.fixture
async def offline() -> AsyncIterator[OfflineJudge]:
    async with OfflineJudge() as server:
        yield server


def judged_by(offline: OfflineJudge, servers: str, folder: Path) -> Stage:
    """Settings with unique names; no topic exists, and none is created."""
    endpoint = {"name": "offline", "base_url": offline.base_url, "model": OFFLINE_MODEL}
    return Stage(servers, folder, changes={"topics.create": False, "judge.endpoints": [endpoint]})


@pytest.fixture
def stage(broker: RunningBroker, tmp_path: Path, offline: OfflineJudge) -> Stage:
    return judged_by(offline, broker.bootstrap_servers, tmp_path)


@pytest.fixture
def topics(stage: Stage, broker: RunningBroker) -> Stage:
    for name in NEEDED:
        broker.create_topic(stage.topic(name), stage.partitions)
    return stage


async def diagnosed(stage: Stage, env: Mapping[str, str] | None = None, **options: Any) -> Diagnosis:
    # Another test covers the verdict on this pack.
    options.setdefault("skip", ("verdict",))
    return await Examination(stage.settings, env=env or {}, **options).run()


def found(diagnosis: Diagnosis, check: str, subject: str = "") -> Finding:
    (one,) = (one for one in diagnosis.findings if one.check == check and one.subject == subject)
    return one


async def test_all_is_well(topics: Stage, broker: RunningBroker) -> None:
    diagnosis = await diagnosed(topics)
    assert diagnosis.failures == ()
    assert found(diagnosis, "broker", topics.bootstrap_servers).detail == "connected: plain text"
    events = found(diagnosis, "topics", topics.topic("events"))
    # A cluster of one broker is known as a trial, once, instead of a warning for each topic.
    assert events.outcome == "ok"
    assert re.match(r"4 partitions, .* records up to ", events.detail)
    assert found(diagnosis, "broker", "cluster").detail.startswith("one broker, for trials")
    rights = found(diagnosis, "access", "topics")
    assert rights.outcome == ("ok" if broker.kind == "apache" else "not tried")
    if broker.kind == "apache":
        read, _, written = rights.detail.partition("; ")
        assert set(read.removeprefix("Read: ").split(", ")) == {
            topics.topic(name)
            for name in ("events", "tasks.tone", "scores", "observations", "anchors", "monitor_state")
        }
        assert set(written.removeprefix("Write: ").split(", ")) == {
            topics.topic(name)
            for name in ("tasks.tone", "dead", "scores", "alerts", "observations", "monitor_state")
        }
    assert found(diagnosis, "access", f"group {topics.name}-group").detail.startswith("does not exist yet")
    assert found(diagnosis, "access", "producer").outcome == "ok"
    assert found(diagnosis, "clock").outcome == "ok"


async def test_agents_of_a_split_worker_on_one_of_two_servers(topics: Stage) -> None:
    """Only the topics and the group of the selected agents are checked; a server that is down warns."""
    gone, alive = "127.0.0.1:1", topics.bootstrap_servers
    topics.bootstrap_servers = f"{gone},{alive}"
    diagnosis = await diagnosed(topics, agents=("monitor",))
    assert found(diagnosis, "broker", gone).outcome == "warning"
    assert found(diagnosis, "broker", alive).outcome == "ok"
    assert diagnosis.failures == ()
    subjects = {one.subject for one in diagnosis.findings if one.check == "topics"}
    assert subjects == {topics.topic(name) for name in ("tasks.tone", "dead", *MONITORS)}
    assert found(diagnosis, "access", f"group {topics.name}-group.monitor")
    assert not [one for one in diagnosis.findings if one.check in {"judge", "budget"}]


async def test_topics_that_are_missing_or_do_not_serve(stage: Stage, broker: RunningBroker) -> None:
    broker.create_topic(stage.topic("events"), 2)
    broker.create_topic(stage.topic("dead"), 4)
    diagnosis = await diagnosed(stage, workers=3)
    few = found(diagnosis, "topics", stage.topic("events"))
    assert few.detail.startswith("too few partitions (2): 1 of 3 workers get no partition")
    missing = {name: found(diagnosis, "topics", stage.topic(name)) for name in ("tasks.tone", *MONITORS)}
    assert {(one.outcome, one.detail) for one in missing.values()} == {("failed", "does not exist")}
    assert all(f"--create --topic {stage.topic(name)}" in one.remedy for name, one in missing.items())
    assert diagnosis.may_pass
    async with kafka_admin(stage.bootstrap_servers) as admin:
        there = await admin.list_topics()
        assert {name for name in there if name.startswith(stage.name)} == {few.subject, stage.topic("dead")}


class Misadvertised(EmbeddedBroker):
    def _address(self) -> tuple[str, int]:
        return "127.0.0.1", 1


async def test_unreachable_advertised_addresses(tmp_path: Path) -> None:
    async with Misadvertised() as broker:
        diagnosis = await diagnosed(Stage(broker.bootstrap_servers, tmp_path))
    (one,) = (one for one in diagnosis.failures if one.check == "broker")
    assert one.subject.startswith("127.0.0.1:1 (node ")
    assert "the cluster sends clients there, and nothing listens at" in one.detail
    assert "advertised.listeners" in one.remedy


def _generation(bootstrap_servers: str, group: str) -> tuple[str, set[str], int]:
    """State, members and generation of a group; a heartbeat with a wrong generation changes nothing."""
    with WireClient(bootstrap_servers) as client:
        ((_, _, state, _, _, described),) = client.ask(DescribeGroupsRequest_v1([group])).groups
        members = [member for member, *_ in described]
        for generation in range(1, 100):
            beat = HeartbeatRequest_v1(group, generation, members[0])
            if client.ask(beat).error_code == 0:
                return state, set(members), generation
    raise AssertionError("no generation")


async def test_the_doctor_does_not_disturb_a_running_worker(topics: Stage) -> None:
    chat = ScriptedChat(lambda _: '{"score": 3, "justification": "plain"}')
    group = topics.settings.kafka.group_id
    async with topics.worker(chat) as (worker, _):
        before = await asyncio.to_thread(_generation, topics.bootstrap_servers, group)
        assert before[0] == "Stable"
        port = int(worker.url.rpartition(":")[2])
        topics.changes["telemetry.port"] = port
        for round_ in range(2):
            await topics.produce([event(10 * round_ + number) for number in range(10)])
            diagnosis = await diagnosed(topics, skip=())
            assert not [one for one in diagnosis.failures if one.check != "verdict"]
        port_detail = found(diagnosis, "port", f"127.0.0.1:{port}").detail
        assert port_detail == "a judgestream worker listens there already"
        assert found(diagnosis, "access", f"group {group}").detail.startswith("Stable, 1 members")
        await topics.holds(scores=20)
        records = {name: len(await topics.read(name)) for name in NEEDED}
        await diagnosed(topics)
        assert {name: len(await topics.read(name)) for name in NEEDED} == records
        written = {name: records[name] for name in ("events", "tasks.tone", "scores", "dead", "alerts")}
        assert written == {"events": 20, "tasks.tone": 20, "scores": 20, "dead": 0, "alerts": 0}
        assert await asyncio.to_thread(_generation, topics.bootstrap_servers, group) == before


@pytest.mark.slow
async def test_the_command_says_all_of_it(topics: Stage) -> None:
    config = str(topics.write_settings())
    ended = await judgestream("doctor", "--config", config, "--skip", "verdict")
    assert (ended.code, ended.err) == (0, "")
    lines = ended.out.splitlines()
    assert all(line.startswith(("ok ", "warning ", "not tried ", "          ->")) for line in lines[:-1])
    assert lines[-1].startswith("a worker can run: ")
    assert "\x1b" not in ended.out
    topics.name = "other"
    config = str(topics.write_settings())
    ended = await judgestream("doctor", "-c", config, "--json", "--skip", "verdict", "--skip", "port")
    told = json.loads(ended.out)
    assert (ended.code, told["ok"], told["exit_code"]) == (1, False, 1)
    assert told["counts"]["failed"] == len(NEEDED)
    assert {one["check"] for one in told["findings"] if one["outcome"] == "not tried"} >= {"verdict", "port"}
    broken = topics.directory / "broken.yaml"
    broken.write_text("kafka: {bootstrap_server: x}\ntelemetry: {port: 99999}\n")
    ended = await judgestream("doctor", "-c", str(broken))
    assert ended.code == 2
    assert "did you mean bootstrap_servers" in ended.out
    assert "telemetry.port" in ended.out


async def test_as_init_container(tmp_path: Path, offline: OfflineJudge) -> None:
    stage = judged_by(offline, f"127.0.0.1:{free_ports(1)[0]}", tmp_path)
    config = str(stage.write_settings())
    options = ("doctor", "-c", config, "--skip", "verdict", "--wait", "50", "--timeout", "5")
    port = int(stage.bootstrap_servers.partition(":")[2])
    async with running(*options) as service:
        await _told(service, "nothing listens at")
        async with EmbeddedBroker(port=port, auto_create_topics=False) as broker:
            await _told(service, "does not exist")
            async with kafka_admin(broker.bootstrap_servers) as admin:
                await admin.create_topics([NewTopic(stage.topic(name), 4, 1) for name in NEEDED])
            ended = await service.end()
    assert ended.code == 0
    assert "a worker can run" in ended.out


async def _told(service: Service, words: str) -> None:
    while words not in (line := await service.error_line()):
        assert line, f"never told: {words}"


@pytest.mark.slow
async def test_waiting_ends(tmp_path: Path) -> None:
    stage = Stage(f"127.0.0.1:{free_ports(1)[0]}", tmp_path)
    stage.changes = {"judge.endpoints": [{"name": "a", "model": "m", "api_key_env": "NONE"}]}
    doctor = ("doctor", "-c", str(stage.write_settings()))
    ended = await judgestream(*doctor, "--wait", "600", "--skip", "judge", "--skip", "verdict")
    assert (ended.code, ended.err) == (2, "")
    stage.changes = {"judge.endpoints": [{"name": "a", "model": "m", "base_url": stage.base_url}]}
    stage.write_settings()
    ended = await judgestream(*doctor, "--wait", "1")
    assert ended.code == 1
    assert ended.err.startswith("waiting, ")
