from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from pydantic import BaseModel

from streams.errors import SettingsError
from streams.settings.addresses import sends_key_in_the_clear
from streams.settings.broker import TopicSettings
from streams.settings.judge import EndpointSettings, default_endpoints
from streams.settings.load import load_settings, mask, settings_schema
from streams.settings.tree import Settings


def write(folder: Path, text: str) -> Path:
    file = folder / "settings.yaml"
    file.write_text(text, encoding="utf-8")
    return file


@pytest.mark.parametrize("text", [None, "", "# nothing\n", "---\n", "telemetry:\n"])
def test_nothing_means_the_defaults(tmp_path: Path, text: str | None) -> None:
    settings = load_settings(None if text is None else write(tmp_path, text), {})
    assert settings == Settings()
    assert list(settings.metrics) == ["coverage", "relevance"]
    assert settings.metrics["coverage"].when.has == ("reference",)
    assert settings.metrics["relevance"].when.has == ("context",)
    assert TopicSettings().task_topic("coverage") == "judge.tasks.coverage"


def test_the_file_is_read(tmp_path: Path) -> None:
    text = """
        kafka:
          bootstrap_servers: "kafka:9092, other:9093"
          security: {protocol: SASL_SSL, mechanism: OAUTHBEARER, ca_file: ca.pem, oauth: {client_id: c,
                     token_url: 'https://a/t', client_secret_file: secret}}
        sampling: {default_rate: 0.05, rules: [{name: gold, when: {tenant: gold, tier: [1, true]}, rate: 1}]}
        metrics:
          coverage: {when: {has: [reference]}}
          tone: {prompt_pack: packs/tone.md, score_range: [1, 5], when: {labels: {app: support}}, rate: 0.2}
        judge:
          endpoints: [{name: primary, base_url: "http://127.0.0.1:1/v1/", model: m, api_key_env: KEY}]
        sinks: {one: {kind: phoenix, url: "http://p:6006/"}}
    """
    settings = load_settings(
        write(tmp_path, text), {"JUDGESTREAM_KAFKA__SECURITY__OAUTH__SCOPE": "kafka read"}
    )
    oauth = settings.kafka.security.oauth
    assert settings.kafka.bootstrap_servers == "kafka:9092,other:9093"
    assert settings.kafka.security.ca_file == tmp_path / "ca.pem"
    assert oauth is not None
    assert oauth.client_secret.file == tmp_path / "secret"
    assert oauth.scope == "kafka read"
    # YAML's 1 and true become the texts of an event's labels.
    assert settings.sampling.rules[0].when == {"tenant": ("gold",), "tier": ("1", "true")}
    assert settings.metrics["tone"].prompt_pack == tmp_path / "packs/tone.md"
    assert settings.metrics["tone"].score_range == (1, 5)
    assert settings.judge.endpoints[0].base_url == "http://127.0.0.1:1/v1"
    assert settings.sinks["one"].model_dump()["url"] == "http://p:6006"


def test_environment_overrides_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write(tmp_path, "kafka: {group_id: a, session_timeout_seconds: 20}\nsampling: {default_rate: 0.5}")
    for name, value in {
        "KAFKA__GROUP_ID": "007",
        "SAMPLING__DEFAULT_RATE": "1e-3",
        "SAMPLING__RULES": '[{"name": "gold", "when": {"tenant": "gold"}, "rate": 1}]',
        "METRICS__COVERAGE__RATE": "0.25",
        "METRICS__TONE__PROMPT_PACK": "p.md",
        "TELEMETRY": "{port: 0, labels: [app]}",
        "TELEMETRY__LOG_LEVEL": "debug",
    }.items():
        monkeypatch.setenv(f"JUDGESTREAM_{name}", value)
    settings = load_settings(file)
    assert settings.kafka.group_id == "007"
    assert settings.kafka.session_timeout_seconds == 20
    assert settings.sampling.default_rate == 0.001
    assert settings.sampling.rules[0].name == "gold"
    assert list(settings.metrics) == ["coverage", "tone"]
    assert settings.metrics["coverage"].rate == 0.25
    assert settings.metrics["tone"].prompt_pack == tmp_path / "p.md"
    assert (settings.telemetry.port, settings.telemetry.log_level) == (0, "debug")


def test_addresses_with_a_version_and_ordinary_parameters_are_taken() -> None:
    """Token counts and cache keys are no secrets; Azure requires a version."""
    address = "https://a.openai.azure.com/openai/v1?api-version=2026-01-01"
    given = {
        "temperature": 0,
        "max_tokens": 5,
        "max_completion_tokens": 5,
        "prompt_cache_key": "a",
        "logit_bias": {"50256": -100},
        "stop": ["\n"],
        "reasoning": {"effort": "low", "max_tokens": 5},
    }
    endpoint = EndpointSettings(name="a", model="m", base_url=address, parameters=given)
    assert (endpoint.base_url, endpoint.parameters) == (address, given)


def test_a_key_sent_over_http_to_another_machine_is_reported() -> None:
    assert sends_key_in_the_clear("http://judge.internal:8000/v1", has_key=True)
    assert not sends_key_in_the_clear("http://judge.internal:8000/v1", has_key=False)
    for address in ("https://judge.internal/v1", "http://127.0.0.1:8000/v1", "http://localhost:8000/v1"):
        assert not sends_key_in_the_clear(address, has_key=True)


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({}, []),
        ({"OPENAI_MODEL": "m"}, []),
        ({"OPENAI_API_KEY": "k"}, [("https://api.openai.com/v1", "gpt-4.1-mini", "OPENAI_API_KEY")]),
        ({"OPENAI_BASE_URL": "http://h:1/v1/", "OPENAI_MODEL": "m"}, [("http://h:1/v1", "m", None)]),
        (
            {"OPENAI_BASE_URL": "http://h/v1", "OPENAI_MODEL": "m", "OPENAI_API_KEY": "k"},
            [("http://h/v1", "m", "OPENAI_API_KEY")],
        ),
        ({"OPENAI_BASE_URL": "http://h/v1"}, "OPENAI_MODEL: is required with OPENAI_BASE_URL"),
        ({"OPENAI_BASE_URL": "h", "OPENAI_MODEL": "m"}, "OPENAI_BASE_URL: must be an http or https address"),
    ],
)
def test_the_usual_variables_give_an_endpoint(env: dict[str, str], expected: Any) -> None:
    if isinstance(expected, str):
        with pytest.raises(SettingsError, match=expected):
            default_endpoints(env)
    else:
        found = default_endpoints(env)
        assert {one.name for one in found} <= {"openai"}
        assert [(one.base_url, one.model, one.api_key and one.api_key.env) for one in found] == expected


def test_the_tree_is_frozen_and_closed() -> None:
    def sections(model: type[BaseModel]) -> list[type[BaseModel]]:
        return [model, *(inner for one in model.__subclasses__() for inner in sections(one))]

    for section in sections(Settings.__mro__[1]):
        assert section.model_config.items() >= {"extra": "forbid", "frozen": True}.items(), section


def test_what_is_shown_can_be_loaded_again_and_fits_the_schema() -> None:
    shown, schema = mask(Settings()), settings_schema()
    assert Settings.model_validate(yaml.safe_load(yaml.safe_dump(shown))) == Settings()
    checker = jsonschema.Draft202012Validator(schema)
    checker.check_schema(schema)
    checker.validate(shown)
    checker.validate(
        {"sampling": {"rules": [{"name": "a", "when": {"x": 1, "y": ["a", True]}, "rate": 0.5}]}}
    )
    for wrong in ("sampling: {defualt_rate: 1}", "judge: {max_in_flight: 0}", "x: {}"):
        assert not checker.is_valid(yaml.safe_load(wrong))


def test_what_kubernetes_sets_for_a_service_is_no_setting() -> None:
    """Variables of Services called judgestream and judgestream-store; a setting has a double underscore."""
    links = {
        "JUDGESTREAM_PORT": "tcp://10.0.0.1:8080",
        "JUDGESTREAM_PORT_8080_TCP": "tcp://10.0.0.1:8080",
        "JUDGESTREAM_PORT_8080_TCP_ADDR": "10.0.0.1",
        "JUDGESTREAM_SERVICE_HOST": "10.0.0.1",
        "JUDGESTREAM_STORE_SERVICE_PORT_HTTP": "8080",
    }
    settings = load_settings(env={**links, "JUDGESTREAM_TELEMETRY__PORT": "9000"})
    assert settings.telemetry.port == 9000
    with pytest.raises(SettingsError, match="JUDGESTREAM_PROT is not a setting"):
        load_settings(env={"JUDGESTREAM_PROT": "1"})
