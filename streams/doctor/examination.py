"""Runs all checks in order of dependency, and repeats them with `--wait`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

from streams.doctor.broker import BrokerExaminer
from streams.doctor.configuration import examine_budget, examine_packs, examine_secrets
from streams.doctor.endpoints import EndpointExaminer
from streams.doctor.events import examine_events
from streams.doctor.finding import CHECKS, CheckName, Diagnosis, Finding, not_tried, ok
from streams.doctor.machine import examine_port, examine_process
from streams.kafka.topics.flow import AGENTS, ALL_AGENTS, AgentName
from streams.settings import Settings
from streams.telemetry.masking import settings_masker

AGAIN_SECONDS: Final = 1.0
"""Pause between two runs with `--wait`."""


class Examination:
    """Tests everything that a worker needs. No topic, record or group is changed.

    Args:
        settings: The settings.
        env: Environment variables.
        agents: The agents to run.
        skip: Checks to skip.
        timeout_seconds: Time limit of each connection and reply, except for verdicts, which have
            `judge.timeout_seconds`.
        workers: Number of workers that share the work; None: the group's current members.
        now: The wall clock, in seconds since 1970.
    """

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
        self._settings = settings
        self._env = env
        self._agents = tuple(name for name in ALL_AGENTS if name in agents)
        self._checks = tuple(name for name in CHECKS if name not in skip)
        self._skip = tuple(skip)
        self._broker = BrokerExaminer(
            settings, env=env, agents=self._agents, timeout_seconds=timeout_seconds, workers=workers
        )
        self._endpoints = EndpointExaminer(settings, env, timeout_seconds, now)
        self._timeout_seconds = timeout_seconds
        self._masker = settings_masker(settings, env)

    async def run(self) -> Diagnosis:
        """Run all checks once."""
        judges = "judge" in self._agents
        broker, endpoints = await asyncio.gather(
            self._broker.examine(self._checks),
            self._endpoints.examine(self._checks if judges else ()),
        )
        reads = "events" in self._checks and "intake" in self._agents
        found = [
            *(await self._events(broker) if reads else ()),
            *self._own(judges=judges),
            *(await examine_port(self._settings.telemetry, self._env) if "port" in self._checks else ()),
            *broker,
            *endpoints,
            *(not_tried(name, "", "skipped (--skip)") for name in self._skip),
        ]
        # The checks run concurrently and are reported in order. Masking is a second defence: findings contain
        # no secrets.
        found = sorted(found, key=lambda one: CHECKS.index(one.check))
        return Diagnosis(
            tuple(self._masked(one) for one in found), self._endpoints.usage, self._endpoints.cost_usd
        )

    async def _events(self, broker: Sequence[Finding]) -> Sequence[Finding]:
        topic = self._settings.topics.events
        if any(
            one.outcome in {"failed", "not tried"}
            for one in broker
            if one.check in {"broker", "topics", "access"}
        ):
            return [not_tried("events", topic, "first fix the problems of broker, topics and access")]
        return await examine_events(self._settings, self._env, self._timeout_seconds)

    async def run_until_well(
        self, wait_seconds: float, *, on_trouble: Callable[[Diagnosis, float], None] = lambda *_: None
    ) -> Diagnosis:
        """Repeat until nothing fails, a failure is permanent, or the time is over.

        Args:
            wait_seconds: How long to repeat; 0 runs once.
            on_trouble: Called before each repetition with the diagnosis and the seconds left.
        """
        diagnosis = await self.run()
        # After the first run, so that a slow one is still repeated.
        deadline = time.monotonic() + wait_seconds
        while diagnosis.may_pass and (left := deadline - time.monotonic()) > 0:
            on_trouble(diagnosis, left)
            await asyncio.sleep(min(AGAIN_SECONDS, left))
            diagnosis = await self.run()
        return diagnosis

    def _own(self, *, judges: bool) -> list[Finding]:
        """Run the checks without network."""
        settings, env = self._settings, self._env
        found: list[Finding] = []
        if "settings" in self._checks:
            found.append(ok("settings", "", f"valid; agents {', '.join(self._agents)}"))
        if "secrets" in self._checks:
            found += examine_secrets(settings, env, judges=judges)
        if "packs" in self._checks:
            found += examine_packs(settings)
        if "budget" in self._checks and judges:
            found += examine_budget(settings, env)
        if "process" in self._checks:
            found += examine_process(settings)
        return found

    def _masked(self, finding: Finding) -> Finding:
        mask = self._masker.mask
        return replace(finding, detail=mask(finding.detail), remedy=mask(finding.remedy))
