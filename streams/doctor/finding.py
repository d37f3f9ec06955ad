"""What was found about one thing that a worker needs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, Literal, get_args

from schemas import Usage

CheckName = Literal[
    "settings", "secrets", "packs", "budget", "process", "port", "broker", "topics", "access", "events",
    "judge", "verdict", "clock",
]  # fmt: skip
CHECKS: Final[tuple[CheckName, ...]] = get_args(CheckName)

Outcome = Literal["ok", "warning", "failed", "not tried"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the diagnosis.

    Args:
        check: What it belongs to.
        subject: What was looked at, such as a topic's name; empty for the check as a whole.
        outcome: How it stands.
        detail: What was found; for "not tried" why not. No secret is in it.
        remedy: What to do about it; empty where nothing has to be done.
        may_pass: Whether a failure may pass while one waits.
        by_settings: Whether it is the settings that must change before anything can run.
    """

    check: CheckName
    subject: str
    outcome: Outcome
    detail: str
    remedy: str = ""
    may_pass: bool = False
    by_settings: bool = False

    def as_json(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "check": self.check,
            "subject": self.subject,
            "outcome": self.outcome,
            "detail": self.detail,
            "remedy": self.remedy or None,
        }


def ok(check: CheckName, subject: str, detail: str) -> Finding:
    """It is as it should be."""
    return Finding(check, subject, "ok", detail)


def warning(check: CheckName, subject: str, detail: str, remedy: str) -> Finding:
    """A worker would run, and a person should know."""
    return Finding(check, subject, "warning", detail, remedy)


def failed(check: CheckName, subject: str, detail: str, remedy: str, *, may_pass: bool = False) -> Finding:
    """A worker could not do its work."""
    return Finding(check, subject, "failed", detail, remedy, may_pass=may_pass)


def bad_settings(check: CheckName, subject: str, problem: str) -> Finding:
    """The settings do not hold.

    Args:
        check: What it belongs to.
        subject: What was looked at.
        problem: A line of a SettingsError: what is wrong; what to do.
    """
    what, _, remedy = problem.rpartition("; ")
    return Finding(check, subject, "failed", what or remedy, remedy if what else "", by_settings=True)


def not_tried(check: CheckName, subject: str, reason: str) -> Finding:
    """Nobody knows how it stands."""
    return Finding(check, subject, "not tried", reason)


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """All that was found.

    Args:
        findings: In the order of the checks.
        usage: Tokens that the verdicts took.
        cost_usd: What they cost; None where no price is known.
    """

    findings: tuple[Finding, ...]
    usage: Usage = field(default_factory=Usage)
    cost_usd: float | None = None

    @property
    def failures(self) -> tuple[Finding, ...]:
        """What failed."""
        return tuple(one for one in self.findings if one.outcome == "failed")

    @property
    def exit_code(self) -> int:
        """0: a worker can run, perhaps with warnings; 1: something failed; 2: the settings must change."""
        if any(one.by_settings for one in self.failures):
            return 2
        return 1 if self.failures else 0

    @property
    def may_pass(self) -> bool:
        """Whether everything that failed may pass while one waits."""
        return bool(self.failures) and all(one.may_pass for one in self.failures)

    def counts(self) -> dict[Outcome, int]:
        """How many there are of each outcome."""
        return count_outcomes(self.findings)

    def as_json(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "ok": not self.failures,
            "exit_code": self.exit_code,
            "counts": self.counts(),
            "tokens": {
                "input": self.usage.input_tokens,
                "cached": self.usage.cached_tokens,
                "output": self.usage.output_tokens,
            },
            "cost_usd": self.cost_usd,
            "findings": [one.as_json() for one in self.findings],
        }


def count_outcomes(findings: Iterable[Finding]) -> dict[Outcome, int]:
    """Count findings by outcome, with a zero for those that did not occur."""
    counted = Counter(one.outcome for one in findings)
    return {outcome: counted[outcome] for outcome in get_args(Outcome)}
