"""Runs all checks in order of dependency, and repeats them with `--wait`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

from streams.doctor.broker import BrokerExaminer
from streams.doctor.endpoints import EndpointExaminer
from streams.doctor.events import examine_events
from streams.doctor.findings import CHECKS, CheckName, Diagnosis, Finding, not_tried, ok
from streams.doctor.own import examine_budget, examine_packs, examine_port, examine_process, examine_secrets
from streams.kafka.topics.table import AGENTS, ALL_AGENTS, AgentName
from streams.settings.tree import Settings
from streams.telemetry.logs import settings_masker

AGAIN_SECONDS: Final = 1.0


class Examination:
    """Tests everything that a worker needs, and changes nothing; `workers` None: the group's members."""

    def __init__(
        self,
        settings: Settings,
        *,
        env: Mapping[str, str],
        agents: Collection[AgentName] = AGENTS,
        skip: Collection[CheckName] = (),
        timeout_seconds: float = 10.0,
        workers: int | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._settings, self._env, self._timeout_seconds = settings, env, timeout_seconds
        self._agents = tuple(name for name in ALL_AGENTS if name in agents)
        judged: tuple[CheckName, ...] = () if "judge" in agents else ("judge", "verdict", "clock", "budget")
        read: tuple[CheckName, ...] = () if "intake" in agents else ("events",)
        self._checks = [name for name in CHECKS if name not in {*skip, *judged, *read}]
        self._skip = tuple(skip)
        self._broker = BrokerExaminer(
            settings, env=env, agents=self._agents, timeout_seconds=timeout_seconds, workers=workers
        )
        self._endpoints = EndpointExaminer(settings, env, timeout_seconds, now)
        self._mask = settings_masker(settings, env).mask

    async def run(self) -> Diagnosis:
        broker, endpoints = await asyncio.gather(
            self._broker.examine(self._checks), self._endpoints.examine(self._checks)
        )
        settings, env = self._settings, self._env
        local: Mapping[CheckName, Callable[[], Sequence[Finding]]] = {
            "settings": lambda: [ok("settings", "", f"valid; agents {', '.join(self._agents)}")],
            "secrets": lambda: examine_secrets(settings, env, judges="judge" in self._agents),
            "packs": lambda: examine_packs(settings),
            "budget": lambda: examine_budget(settings, env),
            "process": lambda: examine_process(settings),
        }
        findings = [
            *(finding for name, check in local.items() if name in self._checks for finding in check()),
            *(await examine_port(settings.telemetry, env) if "port" in self._checks else ()),
            *broker,
            *(await self._events(broker) if "events" in self._checks else ()),
            *endpoints,
            *(not_tried(name, "", "skipped (--skip)") for name in self._skip),
        ]
        findings.sort(key=lambda finding: CHECKS.index(finding.check))
        # Masking is a second defence: findings contain no secrets.
        masked = (
            replace(one, detail=self._mask(one.detail), remedy=self._mask(one.remedy)) for one in findings
        )
        return Diagnosis(tuple(masked), self._endpoints.usage, self._endpoints.cost_usd)

    async def _events(self, broker: Sequence[Finding]) -> Sequence[Finding]:
        blocked = (one for one in broker if one.outcome == "not tried" and one.check != "access")
        if any(blocked) or any(one.outcome == "failed" for one in broker):
            why = "first fix the problems of broker, topics and access"
            return [not_tried("events", self._settings.topics.events, why)]
        return await examine_events(self._settings, self._env, self._timeout_seconds)

    async def run_until_well(
        self, wait_seconds: float, *, on_trouble: Callable[[Diagnosis, float], None] = lambda *_: None
    ) -> Diagnosis:
        """Repeat until nothing fails, a failure is permanent, or the time is over (0: run once)."""
        diagnosis = await self.run()
        # After the first run, so that a slow one is still repeated.
        deadline = time.monotonic() + wait_seconds
        while diagnosis.may_pass and (left := deadline - time.monotonic()) > 0:
            on_trouble(diagnosis, left)
            await asyncio.sleep(min(AGAIN_SECONDS, left))
            diagnosis = await self.run()
        return diagnosis
