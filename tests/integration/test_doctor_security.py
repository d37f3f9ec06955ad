"""The doctor at a guarded Apache Kafka names each fault with its remedy."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from streams.doctor.examination import Examination
from streams.doctor.findings import CheckName, Diagnosis
from streams.errors import KafkaAccessError
from streams.kafka.topics.admin import ensure_topics
from streams.kafka.topics.grants import Grant
from streams.kafka.topics.table import AGENTS, plan_topics
from tests.integration.secure_kafka import SecureKafka
from tests.integration.ways_in import (
    ENVIRONMENT,
    FAULTS,
    USER,
    Fault,
    GuardedStage,
    guarded,
    scram,
)

pytestmark = pytest.mark.kafka

KAFKA_ALONE: tuple[CheckName, ...] = ("process", "port", "judge", "verdict", "clock")
"""The checks that are skipped here."""


def stage_at(kafka: SecureKafka, folder: Path, section: dict[str, Any]) -> GuardedStage:
    return guarded(kafka, folder, section["bootstrap_servers"], section["security"])


@pytest.fixture
async def stage(secure_kafka: SecureKafka, tmp_path: Path) -> GuardedStage:
    section = {"bootstrap_servers": secure_kafka.at("SCRAM"), "security": scram(secure_kafka)}
    made = stage_at(secure_kafka, tmp_path, section)
    await made.create_topics()
    return made


async def diagnosed(stage: GuardedStage) -> Diagnosis:
    return await Examination(stage.settings, env=ENVIRONMENT, skip=KAFKA_ALONE).run()


@pytest.mark.parametrize("fault", [pytest.param(fault, id=fault.what) for fault in FAULTS])
async def test_a_refused_client_gets_the_remedy(
    secure_kafka: SecureKafka, tmp_path: Path, fault: Fault
) -> None:
    section = fault.section(secure_kafka)
    diagnosis = await diagnosed(stage_at(secure_kafka, tmp_path, section))
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
    stage: GuardedStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the doctor's one failure, and stops the start of a worker. DescribeConfigs alone is a warning."""
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    grants, group = stage.grants(), f"group {stage.settings.kafka.group_id}"
    wanted = plan_topics(stage.settings, AGENTS)
    with stage.allowed(grants):
        diagnosis = await diagnosed(stage)
        assert diagnosis.exit_code == 0
        hidden = [one for one in diagnosis.findings if "settings cannot be read" in one.detail]
        topics = {grant.name for grant in grants if grant.resource == "topic"}
        assert {one.subject for one in hidden} == {"broker", *topics}
        assert all(one.outcome == "warning" for one in hidden)
        assert all("--operation DescribeConfigs" in one.remedy for one in hidden)
        await ensure_topics(stage.settings.kafka, wanted, create=False, grants=grants)
        for grant in grants:
            for operation in grant.operations:
                command = (
                    f"--allow-principal User:{USER} --operation {operation} --{grant.resource} {grant.name}"
                )
                gone = [Grant(grant.resource, grant.name, (operation,))]
                stage.kafka.forbid(stage.principal, gone)
                diagnosis = await diagnosed(stage)
                with pytest.raises(KafkaAccessError) as caught:
                    await ensure_topics(stage.settings.kafka, wanted, create=False, grants=grants)
                stage.kafka.allow(stage.principal, gone)
                (one,) = diagnosis.failures
                assert one.subject == (grant.name if grant.resource == "topic" else group)
                assert f"User:{USER} may not" in one.detail
                assert one.remedy.endswith(command), one
                assert (diagnosis.exit_code, diagnosis.may_pass) == (1, False)
                lacking = f"User:{USER} lacks {operation} on {grant.resource} {grant.name}; grant it: "
                assert lacking in str(caught.value)
                assert str(caught.value).endswith(command)
