from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from streams.settings.tree import Settings
from tests.helm.chart import CHART, CI_VALUES, load, name_of, schema
from tests.helm.suite import Rendered, broken, cases, holds, nested
from tests.streams.settings.secret_places import places

# Objects with free keys: labels, annotations, objects of Kubernetes and KEDA, and judgestream's settings.
_OPEN = {
    "additionalRuleAnnotations", "additionalRuleLabels", "advanced", "annotations", "behavior",
    "commonAnnotations", "commonLabels", "endpoint", "fallback", "floors", "global", "labels", "limits",
    "metadata", "nodeAffinity", "nodeSelector", "podAffinity", "podAnnotations", "podAntiAffinity",
    "podLabels", "podSecurityContext", "promptPacks", "requests", "secretEnv", "secretFiles",
    "securityContext", "triggerAuthentication", "updateStrategy",
}  # fmt: skip
# Fields without a default in the chart.
_WITHOUT_DEFAULT = {
    "claims", "initialDelaySeconds", "successThreshold", "global", "nodeAffinity", "podAffinity",
    "podAntiAffinity",
    "kind", "name",
}  # fmt: skip


def _merged(base: Any, over: Any) -> Any:
    if not (isinstance(base, Mapping) and isinstance(over, Mapping)):
        return over
    return {**base, **{key: _merged(base.get(key), value) for key, value in over.items()}}


def _errors(over: Mapping[str, Any]) -> list[str]:
    values = _merged(load(CHART / "values.yaml"), over)
    return [
        f"{'.'.join(map(str, error.absolute_path))}: {error.message}"
        for error in jsonschema.Draft202012Validator(schema()).iter_errors(values)
    ]


_OVERRIDES = ("split.", "store.worker")
"""Overrides of `worker`."""


def _objects(node: Mapping[str, Any], values: Any, above: str = "") -> Iterator[tuple[str, bool, set[str]]]:
    """Path of each object, whether it is closed, and the properties that the values lack."""
    if "$ref" in node:
        node = schema()["$defs"][node["$ref"].removeprefix("#/$defs/")]
    if node.get("type") != "object":
        return
    closed = node.get("additionalProperties") is False
    properties = node.get("properties", {}) if closed else {}
    known = values if isinstance(values, Mapping) else properties
    yield above, closed, properties.keys() - known.keys()
    for key, part in properties.items():
        inner = values.get(key) if isinstance(values, Mapping) else None
        yield from _objects(part, inner, f"{above}.{key}".strip("."))


# The settings below `config` have a test of their own.
_OBJECTS = [
    one for one in _objects(schema(), load(CHART / "values.yaml")) if not one[0].startswith("config.")
]


def test_all_of_the_schema_is_in_the_values() -> None:
    """Values that the schema does not know are refused by it, as each object is closed."""
    missing = {
        f"{above}.{key}"
        for above, _, keys in _OBJECTS
        for key in keys - _WITHOUT_DEFAULT
        # An override has any part of `worker`, or none.
        if above != "config" and not above.startswith(_OVERRIDES)
    }
    assert [one for one in missing if not one.endswith("Probe.terminationGracePeriodSeconds")] == []


@pytest.mark.parametrize("values", CI_VALUES, ids=name_of)
def test_the_values_of_the_tests_are_valid(values: Path) -> None:
    assert _errors(load(values) or {}) == []


def test_every_object_with_our_own_keys_is_closed() -> None:
    opened = [path for path, closed, _ in _OBJECTS if not closed and not path.startswith(_OVERRIDES)]
    assert {path.rpartition(".")[2] for path in opened} == _OPEN
    for path in ("misspelt", "worker.misspelt", "worker.autoscaling.hpa.misspelt"):
        assert any("misspelt" in error for error in _errors(nested({path: 1})))


def test_the_settings_of_another_packages_sink_are_its_own() -> None:
    known = {"kind": "webhook", "url": "https://example.com", "misspelt": 1}
    assert _errors({"config": {"sinks": {"mine": {**known, "kind": "theirs"}}}}) == []
    assert _errors({"config": {"sinks": {"mine": known}}})


def test_what_variables_may_set_is_not_required_of_the_values() -> None:
    config = {"telemetry": {"basic_auth": {}}, "judge": {"endpoints": [{"name": "a"}]}}
    assert _errors({"config": config}) == []


def test_a_secret_by_value_is_refused() -> None:
    secrets = {path for path in places(Settings) if not path.startswith("sinks.")}
    assert {"kafka.security.password", "judge.endpoints.*.api_key"} <= secrets
    for path in secrets:
        config = nested({path: "hunter2"})
        if "endpoints" in path:
            config = {"judge": {"endpoints": [{"name": "primary", "model": "m", "api_key": "hunter2"}]}}
        assert any("not a value: a Secret's" in error for error in _errors({"config": config})), path
    for reference in ("password_env", "password_file"):
        assert _errors({"config": nested({f"kafka.security.{reference}": "KAFKA_PASSWORD"})}) == []


@pytest.mark.parametrize(
    "variable",
    [
        {"name": "OPENAI_API_KEY", "value": "sk-1"},
        {"name": "JUDGESTREAM_KAFKA__SECURITY__PASSWORD", "value": "hunter2"},
        {"name": "GATEWAY_TOKEN", "value": "t"},
        {"name": "JUDGESTREAM_JUDGE__ENDPOINTS", "value": '[{"name": "a", "model": "m", "api_key": "sk-1"}]'},
        {"name": "JUDGESTREAM_JUDGE__ENDPOINTS", "value": "[{name: a, model: m, api_key: sk-1}]"},
    ],
    ids=lambda variable: f"{variable['name']}",
)
@pytest.mark.parametrize("place", ["worker.extraEnv", "split.judge.extraEnv", "topicsJob.extraEnv"])
def test_a_secret_in_a_variable_is_refused(place: str, variable: dict[str, str]) -> None:
    assert _errors(nested({place: [variable]}))
    reference = {"name": variable["name"], "valueFrom": {"secretKeyRef": {"name": "judge", "key": "key"}}}
    assert _errors(nested({place: [reference]})) == []


def test_variables_that_are_no_secrets_are_accepted() -> None:
    endpoints = "[{name: a, model: m, api_key_env: KEY}]"
    variables = [
        {"name": "JUDGESTREAM_JUDGE__ENDPOINTS", "value": endpoints},
        {"name": "JUDGESTREAM_JUDGE__MAX_OUTPUT_TOKENS", "value": "900"},
        {"name": "JUDGESTREAM_KAFKA__SECURITY__PASSWORD_FILE", "value": "/secrets/kafka/password"},
    ]
    assert _errors({"worker": {"extraEnv": variables}}) == []


def test_the_grace_period_covers_the_drain() -> None:
    """The grace period is the judge's timeout and 5 s, within 20 and 120 s, plus 15 s to leave the group."""
    from streams.worker.run import CLOSE_SECONDS, LONGEST_STOP_SECONDS, STOP_SECONDS

    helpers = (CHART / "templates" / "_helpers.tpl").read_text(encoding="utf-8")
    _, _, rest = helpers.partition('define "judgestream.drainSeconds" -}}')
    bounds = f"add {CLOSE_SECONDS:g} (max {STOP_SECONDS:g} (min {LONGEST_STOP_SECONDS:g} (add 5 $timeout)))"
    assert bounds in rest.partition("{{- end }}")[0]
    assert f'"timeout_seconds" {Settings().judge.timeout_seconds:g} .Values.config' in rest
    assert schema()["$defs"]["worker"]["properties"]["terminationGracePeriodSeconds"]["minimum"] == 35


def test_the_default_metrics_are_those_of_the_settings() -> None:
    helpers = (CHART / "templates" / "_helpers.tpl").read_text(encoding="utf-8")
    settings = Settings()
    assert set(settings.metrics) == {"coverage", "relevance"}
    assert 'dict "coverage" dict "relevance" dict' in helpers
    topics, kafka = settings.topics, settings.kafka
    templates = "".join(path.read_text(encoding="utf-8") for path in (CHART / "templates").glob("*"))
    of_topics = (topics.events, topics.scores, "%sjudge.tasks.%s")
    for default in (*of_topics, kafka.group_id, kafka.bootstrap_servers):
        assert f'"{default}"' in templates


CASES = dict(cases())
_DOCUMENT = Rendered({"t": "kind: Job\nspec: {list: [{a: 1, b: 2}, 3], text: one two}\n"})


@pytest.mark.tools
@pytest.mark.parametrize("name", CASES)
def test_every_case_of_the_chart_holds(name: str) -> None:
    assert broken(CASES[name]) == []


def test_all_suites_are_read() -> None:
    assert len({name.partition(":")[0] for name in CASES}) >= 8
    assert len(CASES) >= 70


@pytest.mark.parametrize(
    ("word", "about"),
    [
        ("equal", {"path": "spec.list[0].a", "value": 2}),
        ("equal", {"path": "spec.none.a", "value": 1}),
        ("isNull", {"path": "spec.text"}),
        ("lengthEqual", {"path": "spec.list", "count": 1}),
        ("matchRegex", {"path": "spec.text", "pattern": "^two"}),
        ("notMatchRegex", {"path": 'spec["text"]', "pattern": "^one"}),
        ("contains", {"path": "spec.list", "content": {"a": 1}}),
        ("notContains", {"path": "spec.list", "content": 3}),
        ("hasDocuments", {"count": 2}),
        ("matchRegexRaw", {"pattern": "kind: Pod"}),
        ("notMatchRegexRaw", {"pattern": "kind: Job"}),
        ("failedTemplate", {"errorPattern": "why"}),
    ],
)
def test_each_check_of_the_cases_can_fail(word: str, about: dict[str, object]) -> None:
    assert not holds(word, about, _DOCUMENT, ["t"])


def test_a_refusal_of_helm_fails_every_other_check() -> None:
    refused = Rendered({}, "because: why")
    assert holds("failedTemplate", {"errorPattern": "why"}, refused, ["t"])
    assert not holds("hasDocuments", {"count": 0}, refused, ["t"])
    assert not holds("isNull", {"path": "spec"}, refused, ["t"])
