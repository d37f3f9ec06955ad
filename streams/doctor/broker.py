"""Tests the broker: each address, the topics and the rights that a worker needs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from aiokafka.errors import KafkaError

from judge.text.printable import printable
from streams.doctor.access import check_group, check_hidden, check_producer, check_topic_rights
from streams.doctor.facts import Cluster, GroupView
from streams.doctor.facts import Settings as ShownSettings
from streams.doctor.finding import CheckName, Finding, failed, not_tried, ok, warning
from streams.doctor.probe import KafkaProbe, Met
from streams.doctor.topics import Expected, check_topic, largest_record, session_problems, split_problem
from streams.errors import SettingsError, StreamsError
from streams.kafka.access.access import client_options
from streams.kafka.access.errors import explain
from streams.kafka.topics.broker_settings import auto_create_risk
from streams.kafka.topics.flow import AgentName, group_of, topic_uses
from streams.kafka.topics.removed import removed_tasks
from streams.settings import KafkaSettings, Settings

CERTIFICATE_WARNING_SECONDS: Final = 14 * 86_400.0
_TROUBLE: Final = (KafkaError, OSError, EOFError, TimeoutError, StreamsError)


class BrokerExaminer:
    """Tests a cluster for some agents.

    Args:
        settings: The settings.
        env: Environment variables.
        agents: The agents to run.
        timeout_seconds: Time limit of each connection and reply.
        workers: Number of workers that share the work; None: the group's current members.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        env: Mapping[str, str],
        agents: Collection[AgentName],
        timeout_seconds: float,
        workers: int | None,
    ) -> None:
        self._settings = settings
        self._kafka = settings.kafka
        self._env = env
        self._group_id = group_of(settings.kafka.group_id, agents)
        self._needs = {use.name: use for use in topic_uses(settings.topics, settings.metrics, agents)}
        self._timeout_seconds = timeout_seconds
        self._workers = workers

    async def examine(self, checks: Collection[CheckName]) -> list[Finding]:
        """Run the requested checks of `broker`, `topics` and `access`."""
        try:
            options = client_options(self._kafka, self._env)
        except SettingsError:
            why = "credentials of kafka.security are missing, see secrets"
            return [not_tried(check, "", why) for check in ("broker", "topics", "access") if check in checks]
        probe = KafkaProbe(self._kafka, options, timeout_seconds=self._timeout_seconds)
        try:
            return await self._examine(probe, checks)
        finally:
            await probe.close()

    async def _examine(self, probe: KafkaProbe, checks: Collection[CheckName]) -> list[Finding]:
        servers = [_split(server) for server in self._kafka.bootstrap_servers.split(",")]
        reached = await asyncio.gather(*(self._door(probe, *server) for server in servers))
        doors = [finding for finding, _ in reached]
        entrance = next(
            (server for server, (_, met) in zip(servers, reached, strict=True) if met is not None), None
        )
        rest: tuple[CheckName, ...] = ("topics", "access")
        if entrance is None:
            return [
                *self._of("broker", checks, doors),
                *(not_tried(check, "", "no broker connection") for check in rest if check in checks),
            ]
        doors = [_one_of_several(finding) for finding in doors]
        try:
            cluster = await probe.cluster(entrance, list(self._needs))
        except _TROUBLE as error:
            told = self._failure("broker", ":".join(map(str, entrance)), error, self._kafka)
            return [
                *self._of("broker", checks, [*doors, told]),
                *(
                    not_tried(check, "", "the broker does not list its topics")
                    for check in rest
                    if check in checks
                ),
            ]
        inside = await self._nodes(probe, cluster, set(servers))
        shown = await self._shown(probe, cluster)
        group = await self._group(probe, entrance)
        return [
            *self._of("broker", checks, [*doors, *inside, *self._sessions(shown)]),
            *self._of("topics", checks, [*self._topics(cluster, shown, group), *await self._removed()]),
            *self._of("access", checks, await self._access(probe, entrance, cluster, group)),
        ]

    @staticmethod
    def _of(check: CheckName, checks: Collection[CheckName], found: Sequence[Finding]) -> Sequence[Finding]:
        return found if check in checks else ()

    async def _door(self, probe: KafkaProbe, host: str, port: int) -> tuple[Finding, Met | None]:
        """Test one address: connection, TLS and login, each with its own error."""
        server = f"{host}:{port}"
        kafka = self._kafka.model_copy(update={"bootstrap_servers": server})
        try:
            await probe.reach(host, port)
        except _TROUBLE as error:
            return self._failure("broker", server, error, kafka), None
        try:
            met = await probe.meet(host, port)
        except _TROUBLE as error:
            return self._failure("broker", server, error, kafka), None
        return self._met(server, met), met

    def _met(self, server: str, met: Met) -> Finding:
        security = self._kafka.security
        parts = [met.tls_version or "plain text"]
        if security.mechanism is not None:
            parts.append(
                f"{security.mechanism} as {security.username}" if security.username else security.mechanism
            )
        if met.certificate_until is not None:
            left = met.certificate_until - time.time()
            until = time.strftime("%Y-%m-%d", time.gmtime(met.certificate_until))
            parts.append(f"certificate until {until}")
            if left < CERTIFICATE_WARNING_SECONDS:
                return warning(
                    "broker",
                    server,
                    f"its certificate expires in {max(left, 0) / 86_400:.0f} days ({until})",
                    "renew it",
                )
        return ok("broker", server, f"connected: {', '.join(parts)}")

    def _failure(self, check: CheckName, subject: str, error: BaseException, kafka: KafkaSettings) -> Finding:
        known = explain(error, kafka)
        if known is not None:
            return failed(check, subject, known.reason, known.remedy, may_pass=not known.lasting)
        text = printable(str(error), 300) or "no details"
        return failed(
            check,
            subject,
            f"{type(error).__name__}: {text}",
            "check kafka.bootstrap_servers, kafka.security and the broker's log",
            may_pass=True,
        )

    async def _nodes(self, probe: KafkaProbe, cluster: Cluster, known: set[tuple[str, int]]) -> list[Finding]:
        """Test each address that the cluster advertises to clients."""
        others = [node for node in cluster.nodes if (node.host, node.port) not in known]
        reached = await asyncio.gather(*(self._door(probe, node.host, node.port) for node in others))
        found = []
        for node, (finding, met) in zip(others, reached, strict=True):
            if met is None:
                finding = failed(  # noqa: PLW2901 - the same finding, with its cause
                    "broker",
                    f"{node.address} (node {node.node_id})",
                    f"the cluster sends clients there, and {finding.detail}",
                    f"{finding.remedy}, and advertised.listeners of this broker",
                    may_pass=finding.may_pass,
                )
            found.append(finding)
        return found

    async def _shown(self, probe: KafkaProbe, cluster: Cluster) -> ShownSettings:
        there = [name for name, topic in cluster.topics.items() if not topic.error_code]
        try:
            return await probe.settings(cluster.nodes[0], there)
        except _TROUBLE as error:
            return ShownSettings(hidden={"": type(error).__name__})

    async def _group(self, probe: KafkaProbe, at: tuple[str, int]) -> GroupView | Finding:
        try:
            return await probe.group(at, self._group_id)
        except _TROUBLE as error:
            return self._failure("access", f"group {self._group_id}", error, self._kafka)

    def _sessions(self, shown: ShownSettings) -> list[Finding]:
        found = [
            failed("broker", "sessions", *split_problem(one))
            for one in session_problems(self._kafka, shown.broker)
        ]
        risk = auto_create_risk(shown.broker)
        return found if risk is None else [*found, warning("broker", "topics", *split_problem(risk))]

    def _topics(self, cluster: Cluster, shown: ShownSettings, group: GroupView | Finding) -> list[Finding]:
        here = len(group.clients) if isinstance(group, GroupView) else 0
        expected = Expected(
            self._settings,
            workers=max(1, here) if self._workers is None else self._workers,
            events_bytes=largest_record(shown.topics, self._settings.topics.events),
        )
        found: list[Finding] = []
        for name, need in self._needs.items():
            view = cluster.topics.get(name)
            if view is None:
                found.append(failed("topics", name, "the broker does not report it", "check its log"))
                continue
            found += check_topic(view, shown.topics.get(name), need, expected)
        return [*found, *check_hidden(shown.hidden, self._kafka)]

    async def _removed(self) -> list[Finding]:
        """Warn of tasks that no worker with these settings reads."""
        try:
            waiting = await removed_tasks(
                self._settings, connect_seconds=self._timeout_seconds, env=self._env
            )
        except _TROUBLE as error:
            return [self._failure("topics", "removed metrics", error, self._kafka)]
        return [
            warning(
                "topics",
                self._settings.topics.task_topic(metric),
                f"{tasks} tasks of metric {metric}, which is not in the settings: no worker judges them",
                f"restore the metric, or run judgestream topics drain --metric {metric}",
            )
            for metric, tasks in waiting.items()
        ]

    async def _access(
        self, probe: KafkaProbe, at: tuple[str, int], cluster: Cluster, group: GroupView | Finding
    ) -> list[Finding]:
        found = check_topic_rights(_known(cluster, self._needs), self._needs, self._kafka)
        try:
            found.append(check_producer(await probe.producer_id_error(at), self._kafka))
        except _TROUBLE as error:
            found.append(self._failure("access", "producer", error, self._kafka))
        if isinstance(group, Finding):
            return [*found, group]
        return [*found, *check_group(self._group_id, group, self._kafka)]


def _known(cluster: Cluster, needs: Mapping[str, Any]) -> list[Any]:
    return [cluster.topics[name] for name in needs if name in cluster.topics]


def _one_of_several(finding: Finding) -> Finding:
    """Turn a temporary failure into a warning, because another server answers."""
    if finding.outcome != "failed" or not finding.may_pass:
        return finding
    return warning(
        finding.check,
        finding.subject,
        f"{finding.detail}; another server of kafka.bootstrap_servers answers",
        finding.remedy,
    )


def _split(server: str) -> tuple[str, int]:
    host, _, port = server.strip().rpartition(":")
    return host.strip("[]"), int(port)
