"""Results of checks."""

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
        check: The check.
        subject: The object checked, such as a topic's name; empty for the check as a whole.
        outcome: The result.
        detail: The details, without secrets; for "not tried" the reason.
        remedy: The remedy; empty if none is needed.
        may_pass: Whether a failure may be temporary.
        by_settings: Whether the settings are invalid.
    """

    check: CheckName
    subject: str
    outcome: Outcome
    detail: str
    remedy: str = ""
    may_pass: bool = False
    by_settings: bool = False

    def as_json(self) -> dict[str, Any]:
        """Return it for `--json`."""
        return {
            "check": self.check,
            "subject": self.subject,
            "outcome": self.outcome,
            "detail": self.detail,
            "remedy": self.remedy or None,
        }


def ok(check: CheckName, subject: str, detail: str) -> Finding:
    """Return a success."""
    return Finding(check, subject, "ok", detail)


def warning(check: CheckName, subject: str, detail: str, remedy: str) -> Finding:
    """Return a warning: a worker can run."""
    return Finding(check, subject, "warning", detail, remedy)


def failed(check: CheckName, subject: str, detail: str, remedy: str, *, may_pass: bool = False) -> Finding:
    """Return a failure: a worker cannot do its work."""
    return Finding(check, subject, "failed", detail, remedy, may_pass=may_pass)


def bad_settings(check: CheckName, subject: str, problem: str) -> Finding:
    """Return a failure of the settings.

    Args:
        check: The check.
        subject: The object checked.
        problem: A line of a SettingsError: what is wrong; what to do.
    """
    what, _, remedy = problem.rpartition("; ")
    return Finding(check, subject, "failed", what or remedy, remedy if what else "", by_settings=True)


def not_tried(check: CheckName, subject: str, reason: str) -> Finding:
    """Return that a check was not run."""
    return Finding(check, subject, "not tried", reason)


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """All findings.

    Args:
        findings: In the order of the checks.
        usage: Tokens used by the verdicts.
        cost_usd: Their cost; None if a price is not known.
    """

    findings: tuple[Finding, ...]
    usage: Usage = field(default_factory=Usage)
    cost_usd: float | None = None

    @property
    def failures(self) -> tuple[Finding, ...]:
        """The failed findings."""
        return tuple(one for one in self.findings if one.outcome == "failed")

    @property
    def exit_code(self) -> int:
        """0: a worker can run, possibly with warnings; 1: a check failed; 2: the settings are invalid."""
        if any(one.by_settings for one in self.failures):
            return 2
        return 1 if self.failures else 0

    @property
    def may_pass(self) -> bool:
        """Whether there are failures and all may be temporary."""
        return bool(self.failures) and all(one.may_pass for one in self.failures)

    def counts(self) -> dict[Outcome, int]:
        """Number of findings by outcome."""
        return count_outcomes(self.findings)

    def as_json(self) -> dict[str, Any]:
        """Return it for `--json`."""
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
    """Count findings by outcome, including zeros."""
    counted = Counter(one.outcome for one in findings)
    return {outcome: counted[outcome] for outcome in get_args(Outcome)}
