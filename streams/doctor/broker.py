"""Tests the broker: gathers its facts once, each request with its own failure, then checks them."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Awaitable, Collection, Mapping
from dataclasses import replace
from typing import Final, TypeVar

from aiokafka.errors import KafkaError

from judge.text.printable import printable
from streams.doctor.broker_checks import (
    Expected,
    check_group,
    check_hidden,
    check_producer,
    check_sessions,
    check_topic,
    check_topic_rights,
    largest_record,
)
from streams.doctor.findings import CheckName, Finding, failed, not_tried, ok, warning
from streams.doctor.probe import AUTO_CREATE, Cluster, GroupView, KafkaProbe, Shown
from streams.errors import SettingsError, StreamsError
from streams.kafka.access.access import client_options
from streams.kafka.access.errors import explain
from streams.kafka.topics.table import AgentName, group_of, topic_uses
from streams.settings.broker import KafkaSettings
from streams.settings.tree import Settings

CERTIFICATE_WARNING_SECONDS: Final = 14 * 86_400.0
_TROUBLE: Final = (KafkaError, OSError, EOFError, TimeoutError, StreamsError)
_CHECKS: Final[tuple[CheckName, ...]] = ("broker", "topics", "access")
Fact = TypeVar("Fact")


class BrokerExaminer:
    def __init__(
        self,
        settings: Settings,
        *,
        env: Mapping[str, str],
        agents: Collection[AgentName],
        timeout_seconds: float,
        workers: int | None,
    ) -> None:
        self._settings, self._kafka, self._env = settings, settings.kafka, env
        self._group_id = group_of(settings.kafka.group_id, agents)
        self._needs = {use.name: use for use in topic_uses(settings, agents)}
        self._timeout_seconds, self._workers = timeout_seconds, workers

    async def examine(self, checks: Collection[CheckName]) -> list[Finding]:
        try:
            options = client_options(self._kafka, self._env)
        except SettingsError:
            findings = _stopped(_CHECKS, "credentials of kafka.security are missing, see secrets")
        else:
            probe = KafkaProbe(options, timeout_seconds=self._timeout_seconds)
            try:
                findings = await self._examine(probe)
            finally:
                await probe.close()
        return [finding for finding in findings if finding.check in checks]

    async def _examine(self, probe: KafkaProbe) -> list[Finding]:
        servers = [_split(server) for server in self._kafka.bootstrap_servers.split(",")]
        doors = await asyncio.gather(*(self._door(probe, *server) for server in servers))
        open_servers = [
            server for server, door in zip(servers, doors, strict=True) if door.outcome != "failed"
        ]
        if not open_servers:
            return [*doors, *_stopped(_CHECKS[1:], "no broker connection")]
        findings = list(map(_one_of_several, doors))
        entrance = open_servers[0]
        cluster = await self._fact(
            "broker", ":".join(map(str, entrance)), probe.cluster(entrance, list(self._needs))
        )
        if isinstance(cluster, Finding):
            return [*findings, cluster, *_stopped(_CHECKS[1:], "the broker does not list its topics")]
        findings += await self._advertised(probe, cluster, servers)
        present = [name for name, topic in cluster.topics.items() if not topic.error_code]
        shown = await self._fact("topics", "broker", probe.settings(cluster.nodes[0], present))
        if isinstance(shown, Finding):
            shown = Shown({}, {}, hidden={"": shown.detail.partition(":")[0]})
        group = await self._fact("access", f"group {self._group_id}", probe.group(entrance, self._group_id))
        producer = await self._fact("access", "producer", probe.producer_id_error(entrance))
        views = [cluster.topics[name] for name in self._needs if name in cluster.topics]
        return [
            *findings,
            *self._broker_settings(cluster, shown),
            *self._topics(cluster, shown, group),
            *check_topic_rights(views, self._needs, self._kafka),
            producer if isinstance(producer, Finding) else check_producer(producer, self._kafka),
            *([group] if isinstance(group, Finding) else check_group(self._group_id, group, self._kafka)),
        ]

    async def _fact(self, check: CheckName, subject: str, request: Awaitable[Fact]) -> Fact | Finding:
        try:
            return await request
        except _TROUBLE as error:
            return _failure(check, subject, error, self._kafka)

    async def _door(self, probe: KafkaProbe, host: str, port: int) -> Finding:
        server, security = f"{host}:{port}", self._kafka.security
        try:
            tls = await probe.meet(host, port)
        except _TROUBLE as error:
            kafka = self._kafka.model_copy(update={"bootstrap_servers": server})
            return _failure("broker", server, error, kafka)
        login = security.mechanism or ""
        parts = ["plain text" if tls is None else tls.version() or "TLS"]
        parts.append(f"{login} as {security.username}" if security.username else login)
        certificate = {} if tls is None else tls.getpeercert() or {}
        if "notAfter" in certificate:
            ends_at = ssl.cert_time_to_seconds(str(certificate["notAfter"]))
            until, left = time.strftime("%Y-%m-%d", time.gmtime(ends_at)), max(ends_at - time.time(), 0)
            if left < CERTIFICATE_WARNING_SECONDS:
                what = f"its certificate expires in {left / 86_400:.0f} days ({until})"
                return warning("broker", server, what, "renew it")
            parts.append(f"certificate until {until}")
        return ok("broker", server, f"connected: {', '.join(filter(None, parts))}")

    async def _advertised(
        self, probe: KafkaProbe, cluster: Cluster, known: Collection[tuple[str, int]]
    ) -> list[Finding]:
        others = [node for node in cluster.nodes if (node.host, node.port) not in known]
        doors = await asyncio.gather(*(self._door(probe, node.host, node.port) for node in others))
        return [
            door
            if door.outcome != "failed"
            else replace(
                door,
                subject=f"{node.host}:{node.port} (node {node.node_id})",
                detail=f"the cluster sends clients there, and {door.detail}",
                remedy=f"{door.remedy}, and advertised.listeners of this broker",
            )
            for node, door in zip(others, doors, strict=True)
        ]

    def _broker_settings(self, cluster: Cluster, shown: Shown) -> list[Finding]:
        findings = check_sessions(self._kafka, shown.broker)
        if len(cluster.nodes) == 1:
            words = "one broker, for trials: a disk failure loses records"
            return [*findings, ok("broker", "cluster", words)]
        if shown.broker.get(AUTO_CREATE) == "true":
            risk = f"{AUTO_CREATE} is on: a deleted topic is recreated with the broker's defaults"
            findings.append(warning("broker", "topics", risk, "disable it"))
        return findings

    def _topics(self, cluster: Cluster, shown: Shown, group: GroupView | Finding) -> list[Finding]:
        members = len(group.clients) if isinstance(group, GroupView) else 0
        workers = max(1, members) if self._workers is None else self._workers
        events_bytes = largest_record(shown.topics, self._settings.topics.events)
        expected = Expected(self._settings, workers, events_bytes, is_trial=len(cluster.nodes) == 1)
        findings: list[Finding] = []
        for name, need in self._needs.items():
            view = cluster.topics.get(name)
            if view is None:
                findings.append(failed("topics", name, "the broker does not report it", "check its log"))
            else:
                findings += check_topic(view, shown.topics.get(name), need, expected)
        return [*findings, *check_hidden(shown.hidden, self._kafka)]


def _failure(check: CheckName, subject: str, error: BaseException, kafka: KafkaSettings) -> Finding:
    known = explain(error, kafka)
    if known is not None:
        return failed(check, subject, known.reason, known.remedy, may_pass=not known.lasting)
    what = f"{type(error).__name__}: {printable(str(error), 300) or 'no details'}"
    remedy = "check kafka.bootstrap_servers, kafka.security and the broker's log"
    return failed(check, subject, what, remedy, may_pass=True)


def _stopped(checks: Collection[CheckName], why: str) -> list[Finding]:
    return [not_tried(check, "", why) for check in checks]


def _one_of_several(door: Finding) -> Finding:
    """Turn a temporary failure into a warning, because another server answers."""
    if door.outcome != "failed" or not door.may_pass:
        return door
    detail = f"{door.detail}; another server of kafka.bootstrap_servers answers"
    return warning(door.check, door.subject, detail, door.remedy)


def _split(server: str) -> tuple[str, int]:
    host, _, port = server.strip().rpartition(":")
    return host.strip("[]"), int(port)
