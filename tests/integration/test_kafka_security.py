"""Every way into Apache Kafka with exactly the documented permissions, and the message of each fault."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from streams.doctor.examination import Examination
from streams.doctor.findings import CheckName, Diagnosis
from streams.errors import KafkaAccessError
from streams.kafka.topics.admin import ensure_topics
from streams.kafka.topics.grants import Grant, checking_grants, creating_grants, produce_grants
from streams.kafka.topics.table import AGENTS, group_of, plan_topics
from tests.integration.deadlines import until
from tests.integration.processes import Endpoint, Worker
from tests.integration.secure_kafka import TOKEN_LIFE_SECONDS, SecureKafka
from tests.integration.stage import event
from tests.integration.ways_in import (
    ENVIRONMENT,
    FAULTS,
    PARTS,
    USER,
    WAYS,
    Fault,
    GuardedStage,
    guarded,
    scram,
    token,
    way_in,
    without,
)
from tests.loopback import on_loopback
from tests.streams.cli.processes import judgestream

pytestmark = pytest.mark.kafka


@pytest.fixture(autouse=True)
def passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)


KAFKA_ALONE: tuple[CheckName, ...] = ("process", "port", "judge", "verdict", "clock")
"""The checks that are skipped here."""
Staged = Callable[..., GuardedStage]


@pytest.fixture
def staged(kafka: SecureKafka, tmp_path: Path, endpoint: Endpoint) -> Staged:

    def make(listener: str, security: dict[str, Any], principal: str = f"User:{USER}") -> GuardedStage:
        stage = guarded(kafka, tmp_path, kafka.at(listener), security)
        stage.base_url, stage.principal = endpoint.url, principal
        return stage

    return make


async def diagnosed(stage: GuardedStage) -> Diagnosis:
    return await Examination(stage.settings, env=ENVIRONMENT, skip=KAFKA_ALONE).run()


async def refused(worker: Worker) -> str:
    assert await worker.wait() == 2
    assert "Traceback" not in worker.text, worker.text[-6000:]
    return worker.text.strip().splitlines()[-1]


async def stopped(worker: Worker) -> str:
    text = await worker.end()
    assert "Traceback" not in text, text[-6000:]
    return text


@contextlib.asynccontextmanager
async def kept_fresh(kafka: SecureKafka, file: Path) -> AsyncIterator[None]:
    """A token in a file, replaced well before it expires, as a projected volume does."""

    def write() -> None:
        new = file.with_suffix(".new")
        new.write_text(kafka.issuer.token(USER))
        new.replace(file)

    async def renew() -> None:
        while True:
            await asyncio.sleep(TOKEN_LIFE_SECONDS / 4)
            write()

    write()
    task = asyncio.create_task(renew())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


@pytest.mark.parametrize("way", WAYS)
async def test_a_worker_and_the_doctor_do_their_job_with_the_documented_permissions(
    way: str, kafka: SecureKafka, staged: Staged, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    stage = staged(way.upper(), *way_in(way, kafka, file))
    await stage.create_topics()
    grants = stage.grants()
    async with contextlib.AsyncExitStack() as held:
        held.enter_context(stage.allowed(grants))
        if way == "token":
            await held.enter_async_context(kept_fresh(kafka, file))
        with stage.allowed(checking_grants(grants)):
            diagnosis = await diagnosed(stage)
        assert diagnosis.failures == ()
        found = {(one.check, one.subject): one for one in diagnosis.findings}
        assert not [one for one in found.values() if "not shown" in one.detail]
        door = found["broker", kafka.at(way.upper())]
        assert re.search(r"connected: TLSv1\.\d.*, certificate until 3000-01-01", door.detail)
        for subject in ("topics", "producer", f"group {stage.settings.kafka.group_id}"):
            assert found["access", subject].outcome == "ok", found["access", subject]
        worker = await held.enter_async_context(stage.process(stage.write_settings()))
        await stage.produce([event(number) for number in range(20)])
        await stage.judged(20)
        text = await stopped(worker)
    assert "uthorization" not in text
    for topic in ("events", "tasks.tone"):
        at = await stage.committed(topic)
        assert sum(offset or 0 for offset in at) == 20, (topic, at)


async def test_split_parts_need_only_their_own_permissions(kafka: SecureKafka, staged: Staged) -> None:
    stage = staged("SCRAM", scram(kafka))
    await stage.create_topics()
    async with contextlib.AsyncExitStack() as held:
        workers = []
        for part, user in zip(AGENTS, PARTS, strict=True):
            held.enter_context(stage.allowed(stage.grants([part]), f"User:{user}"))
            file = stage.write_settings(part, security=scram(kafka, username=user))
            workers.append(await held.enter_async_context(stage.process(file, agents=[part])))
        await stage.produce([event(number) for number in range(20)])
        await stage.judged(20)
        group = group_of(stage.settings.kafka.group_id, ["monitor"])
        await stage.commits("scores", 20, group)
        for worker in workers:
            await stopped(worker)


async def test_the_commands_end_with_one_line_and_exit_code_2(kafka: SecureKafka, staged: Staged) -> None:
    stage = staged("SCRAM", scram(kafka))
    await stage.create_topics()
    good = stage.write_settings("good")
    bad = stage.write_settings("bad", security=scram(kafka) | {"password_env": "WRONG_PASSWORD"})
    events = stage.directory / "events.jsonl"
    events.write_bytes(event(1) + b"\n")
    topic = stage.topic("events")
    calls = [("worker",), ("produce", str(events), "--topic", topic), ("tail", "--topic", topic)]
    tried = [
        judgestream(*call, "--config", str(file), env=ENVIRONMENT) for file in (bad, good) for call in calls
    ]
    for number, result in enumerate(await asyncio.gather(*tried)):
        assert result.code == 2, result
        assert "Traceback" not in result.err
        last = result.err.strip().splitlines()[-1]
        reason = "refuses the user 'judgestream'" if number < 3 else f"User:{USER} lacks "
        assert last.startswith("error: "), result.err
        assert reason in last, result.err
    with stage.allowed(produce_grants(topic)):
        sent = await judgestream("produce", str(events), "--config", str(good), env=ENVIRONMENT)
        assert (sent.code, sent.err) == (0, "")


async def test_permissions_that_are_taken_away_lose_nothing(kafka: SecureKafka, staged: Staged) -> None:
    """Without Write the worker waits; without Read on a topic or the group it ends with the reason."""
    stage = staged("SCRAM", scram(kafka))
    await stage.create_topics()
    scores, events = stage.topic("scores"), stage.topic("events")
    with stage.allowed(stage.grants()):
        async with stage.process(stage.write_settings("first")) as worker:
            await stage.produce([event(number) for number in range(10)])
            await stage.judged(10)
            kafka.forbid(stage.principal, [Grant("topic", scores, ("Write",))])
            await stage.produce([event(number) for number in range(10, 20)])

            complaint = f"TopicAuthorizationFailedError('{scores}')"
            await until(lambda: complaint in worker.text, "a complaint")
            assert not worker.ready()[0]
            assert f"writing to {scores} has failed for " in worker.ready()[1]
            assert f"User:{USER} lacks permissions on the topic {scores}; grant " in worker.ready()[1]
            kafka.allow(stage.principal, [Grant("topic", scores, ("Write",))])
            await stage.judged(20)
            await until(lambda: worker.ready()[0], "a ready worker")
            kafka.forbid(stage.principal, [Grant("topic", events, ("Read",))])
            last = await refused(worker)
            assert f"lacks permissions on the topic {events}" in last
            kafka.allow(stage.principal, [Grant("topic", events, ("Read",))])
        await stage.produce([event(number) for number in range(20, 30)])
        group = [Grant("group", stage.settings.kafka.group_id, ("Read",))]
        # It may not leave the group, so that the third worker waits for the end of its session.
        second = stage.write_settings("second", session_timeout_seconds=10)
        async with stage.process(second) as worker:
            await stage.judged(30)
            kafka.forbid(stage.principal, group)
            await stage.produce([event(30)])
            last = await refused(worker)
            assert f"may not use the consumer group {stage.settings.kafka.group_id}" in last
            kafka.allow(stage.principal, group)
        async with stage.process(stage.write_settings("third")) as worker:
            # The last event is read again, if its offset could not be committed: then it has two tasks.
            await stage.commits("tasks.tone", 31, at_least=True)
            await stage.judged(31)
            await stopped(worker)
    assert await stage.dead_letters() == []


async def test_tokens_are_renewed_while_a_worker_runs(kafka: SecureKafka, staged: Staged) -> None:
    """The broker ends a session when its token expires; over three token lifetimes nothing is lost."""
    given = 0

    async def answer(request: web.Request) -> web.Response:
        nonlocal given
        assert request.headers["Authorization"] == "Basic anVkZ2VzdHJlYW06Y2xpZW50LXNlY3JldA=="
        assert dict(await request.post()) == {"grant_type": "client_credentials", "scope": "kafka"}
        given += 1
        made = {"access_token": kafka.issuer.token(USER), "expires_in": TOKEN_LIFE_SECONDS}
        return web.json_response({**made, "token_type": "Bearer"})

    app = web.Application()
    app.router.add_post("/token", answer)
    async with on_loopback(app) as address:
        client = {"client_id": USER, "client_secret_env": "CLIENT_SECRET"}
        oauth = {"token_url": f"{address}/token", "scope": "kafka", **client}
        security = without(token(kafka, Path("none")), "token_file") | {"oauth": oauth}
        stage = staged("TOKEN", security)
        await stage.create_topics()
        with stage.allowed(stage.grants()):
            async with stage.process(stage.write_settings()) as worker:
                sent = 0

                async def enough() -> bool:
                    nonlocal sent
                    await stage.produce([event(sent)])
                    sent += 1
                    return given >= 4

                await until(enough, "four tokens")
                await stage.judged(sent)
                await stopped(worker)


async def test_a_worker_without_a_valid_token_is_not_ready(
    kafka: SecureKafka, staged: Staged, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    file.write_text(kafka.issuer.token(USER))
    stage = staged("TOKEN", token(kafka, file))
    await stage.create_topics()
    with stage.allowed(stage.grants()):
        async with stage.process(stage.write_settings()) as worker:
            async with kept_fresh(kafka, file):
                await stage.produce([event(0)])
                await stage.judged(1)
                await until(lambda: worker.ready()[0], "a ready worker")
            file.write_text(kafka.issuer.token(USER, life_seconds=60.0, audience="others"))

            shut_out = "the broker refuses new connections: "
            await until(lambda: shut_out in worker.ready()[1], "a reason")
            assert "refuses the token" in worker.ready()[1]
            assert not worker.ready()[0]
            async with kept_fresh(kafka, file):
                await until(lambda: worker.ready()[0], "a ready worker")
                await stage.produce([event(1)])
                await stage.judged(2)
                await stopped(worker)


@pytest.mark.parametrize("fault", [pytest.param(fault, id=fault.what) for fault in FAULTS])
async def test_a_refused_client_gets_the_remedy(kafka: SecureKafka, tmp_path: Path, fault: Fault) -> None:
    """By the doctor, which names each fault with its remedy."""
    section = fault.section(kafka)
    diagnosis = await diagnosed(guarded(kafka, tmp_path, section["bootstrap_servers"], section["security"]))
    (one,) = diagnosis.failures
    assert (one.check, one.subject) == ("broker", section["bootstrap_servers"])
    said = f"{one.detail}; {one.remedy}"
    assert re.search(fault.expected, said), said
    assert one.remedy
    assert (diagnosis.exit_code, diagnosis.may_pass) == (1, not fault.lasting)
    assert {check.check for check in diagnosis.findings if check.outcome == "not tried"} >= {
        "topics",
        "access",
    }
    assert not [secret for secret in ENVIRONMENT.values() if secret in str(diagnosis)]


async def test_each_missing_permission_is_named_with_the_command_that_grants_it(
    kafka: SecureKafka, staged: Staged
) -> None:
    """It is the doctor's one failure, and stops the start of a worker. DescribeConfigs alone is a warning.

    A worker creates topics only with the permission.
    """
    stage = staged("SCRAM", scram(kafka))
    section, grants = stage.settings.kafka, stage.grants()
    wanted = plan_topics(stage.settings, AGENTS)
    with stage.allowed(grants):
        refusal = rf"lacks Create on topic {stage.name}\..*--operation Create"
        with pytest.raises(KafkaAccessError, match=refusal):
            await ensure_topics(section, wanted, create=True, grants=grants)
        with stage.allowed(creating_grants(grants)):
            await ensure_topics(section, wanted, create=True, grants=grants)
        diagnosis = await diagnosed(stage)
        assert diagnosis.exit_code == 0
        hidden = [one for one in diagnosis.findings if "settings cannot be read" in one.detail]
        topics = {grant.name for grant in grants if grant.resource == "topic"}
        assert {one.subject for one in hidden} == {"broker", *topics}
        assert all(one.outcome == "warning" for one in hidden)
        assert all("--operation DescribeConfigs" in one.remedy for one in hidden)
        await ensure_topics(section, wanted, create=False, grants=grants)
        for grant in grants:
            for operation in grant.operations:
                command = (
                    f"--allow-principal User:{USER} --operation {operation} --{grant.resource} {grant.name}"
                )
                gone = [Grant(grant.resource, grant.name, (operation,))]
                stage.kafka.forbid(stage.principal, gone)
                diagnosis = await diagnosed(stage)
                with pytest.raises(KafkaAccessError) as caught:
                    await ensure_topics(section, wanted, create=False, grants=grants)
                stage.kafka.allow(stage.principal, gone)
                (one,) = diagnosis.failures
                assert one.subject == f"{'group ' * (grant.resource == 'group')}{grant.name}"
                assert f"User:{USER} may not" in one.detail
                assert one.remedy.endswith(command), one
                assert (diagnosis.exit_code, diagnosis.may_pass) == (1, False)
                lacking = f"User:{USER} lacks {operation} on {grant.resource} {grant.name}; grant it: "
                assert lacking in str(caught.value)
                assert str(caught.value).endswith(command)
