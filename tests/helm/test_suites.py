"""The chart's cases, and tests of their checks."""

from __future__ import annotations

import pytest

from tests.helm.suite import CHECKS, Case, Rendered, broken, cases

CASES = list(cases())
_DOCUMENT = Rendered({"t": "kind: Job\nspec: {list: [{a: 1, b: 2}, 3], text: one two}\n"})


@pytest.mark.tools
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.suite}: {case.name}")
def test_every_case_of_the_chart_holds(case: Case) -> None:
    """Every assertion of every case holds."""
    assert broken(case) == []


def test_all_suites_are_read() -> None:
    """At least 8 suites with 70 cases are found."""
    assert len({case.suite for case in CASES}) >= 8
    assert len(CASES) >= 70


@pytest.mark.parametrize(
    ("word", "about", "holds"),
    [
        ("equal", {"path": "spec.list[0].a", "value": 1}, True),
        ("equal", {"path": "spec.list[0].a", "value": 2}, False),
        ("equal", {"path": "spec.none.a", "value": 1}, False),
        ("isNull", {"path": "spec.none"}, True),
        ("isNull", {"path": "spec.text"}, False),
        ("notExists", {"path": "spec.text"}, False),
        ("lengthEqual", {"path": "spec.list", "count": 2}, True),
        ("lengthEqual", {"path": "spec.list", "count": 1}, False),
        ("matchRegex", {"path": 'spec["text"]', "pattern": "^one"}, True),
        ("matchRegex", {"path": "spec.text", "pattern": "^two"}, False),
        ("contains", {"path": "spec.list", "content": 3}, True),
        ("contains", {"path": "spec.list", "content": {"a": 1}}, False),
        ("contains", {"path": "spec.list", "content": {"a": 1}, "any": True}, True),
        ("notContains", {"path": "spec.list", "content": 3}, False),
        ("notContains", {"path": "spec.list", "content": 4}, True),
        ("isKind", {"of": "Job"}, True),
        ("isKind", {"of": "Pod"}, False),
        ("hasDocuments", {"count": 1}, True),
        ("hasDocuments", {"count": 2}, False),
        ("matchRegexRaw", {"pattern": "kind: Job"}, True),
        ("matchRegexRaw", {"pattern": "kind: Pod"}, False),
        ("notMatchRegexRaw", {"pattern": "kind: Job"}, False),
        ("failedTemplate", {"errorPattern": "why"}, False),
    ],
)
def test_a_check_can_fail(word: str, about: dict[str, object], holds: bool) -> None:
    """Each check accepts its condition and rejects another."""
    assert CHECKS[word](_DOCUMENT, ("t",), None, about) is holds


def test_a_refusal_of_helm_fails_every_other_check() -> None:
    """If Helm refuses the values, only `failedTemplate` passes."""
    refused = Rendered({}, "because: why")
    assert CHECKS["failedTemplate"](refused, ("t",), None, {"errorPattern": "why"})
    assert not CHECKS["hasDocuments"](refused, ("t",), None, {"count": 0})
    with pytest.raises(LookupError, match="Helm refused"):
        CHECKS["isNull"](refused, ("t",), None, {"path": "spec"})
