"""Which settings are loaded, and what is refused, and how: refused.txt has each problem's message, once."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from pydantic import BaseModel

from judge.metrics.registry import metric_names
from streams.errors import SettingsError
from streams.settings.addresses import sends_key_in_the_clear
from streams.settings.broker import SecuritySettings, TopicSettings
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


SECRET = "sk-Very-Secret-1"


def problems(folder: Path, text: str, env: dict[str, str] | None = None) -> tuple[str, ...]:
    with pytest.raises(SettingsError) as caught:
        load_settings(write(folder, text), env or {})
    assert SECRET not in repr(caught.value)
    return caught.value.problems


def refused() -> list[tuple[str, str]]:
    text = (Path(__file__).parent / "refused.txt").read_text(encoding="utf-8")
    text = text.replace("<metrics>", ", ".join(metric_names())).replace("<secret>", SECRET)
    text = text.replace("<fields>", ", ".join(SecuritySettings.model_fields))
    return re.findall(r"^(\S.*)\n((?:    .*\n)+)", text, re.MULTILINE)


@pytest.mark.parametrize(("text", "expected"), refused())
def test_each_problem_names_path_limit_value_and_remedy(tmp_path: Path, text: str, expected: str) -> None:
    found = "".join(f"    {problem}\n" for problem in problems(tmp_path, text))
    assert found.replace(str(tmp_path), "<folder>") == expected


def test_all_problems_of_file_and_environment_come_at_once(tmp_path: Path) -> None:
    found = problems(
        tmp_path,
        "sampling: {default_rate: -1}\njudge: {max_in_flight: 0}\n"
        "kafka: {security: {protocol: SASL_SSL, mechanism: PLAIN}}",
        {"JUDGESTREAM_KAFKA__GROUPID": "x"},
    )
    assert [line.partition(" ")[0].rstrip(":") for line in found] == [
        "JUDGESTREAM_KAFKA__GROUPID",
        "kafka.security.username",
        "kafka.security.password_env",
        "sampling.default_rate",
        "judge.max_in_flight",
    ]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("SAMPLNG__DEFAULT_RATE", "is not a setting; did you mean JUDGESTREAM_SAMPLING__DEFAULT_RATE?"),
        ("SAMPLING__RATE", "is not a setting; under JUDGESTREAM_SAMPLING there are: default_rate, rules"),
        ("METRICS__COVERAGE__RAET", "is not a setting; did you mean JUDGESTREAM_METRICS__COVERAGE__RATE?"),
        ("SAMPLNG__NOTHING", "is not a setting; did you mean JUDGESTREAM_SAMPLING?"),
        ("KAFKA__GROUP_ID__X", "is not a setting; remove it"),
        ("", "is not a setting; under JUDGESTREAM_ there are: kafka, topics, "),
        ("JUDGE__RETRY__FIRST_WAIT_SECONDS", "was removed: pauses double from 0.5 s to 30 s"),
        (
            "METRICS__SPEED__CODE__LATENCY__UNIT",
            "was removed: a label whose name ends in _ms or _milliseconds",
        ),
    ],
)
def test_unknown_and_removed_variables_are_refused_with_the_remedy(name: str, words: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings(None, {f"JUDGESTREAM_{name}": "1"})
    assert str(caught.value).startswith(f"JUDGESTREAM_{name} {words}")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("kafka: {group_id: a\n  b: [}", "is not valid YAML at line 2, column 4"),
        ("a: &x {b: 1}\nc: {<<: *x, <<: *x}", "is not a setting"),
        ("- a\n- b", "must be a mapping of sections (got a list)"),
        ("a: \x00", "is not valid YAML"),
        ("[" * 5000, "is nested too deeply"),
        ("? [a]\n: b", "a key must be a text"),
        (f"a: {'1:' * 200}1", "more than 100 characters"),
        (f"a: 0x{'f' * 5000}", "more than 100 characters"),
        ("a: b\n" * 70_000, "characters, at most 262144 are read"),
        (
            "\n".join(["a: &a0 [x]", *(f"b{n}: &a{n + 1} [{', '.join([f'*a{n}'] * 9)}]" for n in range(9))]),
            "aliases make more than",
        ),
    ],
)  # fmt: skip
def test_broken_files_say_where(tmp_path: Path, text: str, expected: str) -> None:
    assert expected in "\n".join(problems(tmp_path, text))


def test_a_file_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    (tmp_path / "latin.yaml").write_bytes(b"kafka: \xff")
    with pytest.raises(SettingsError, match="is not UTF-8"):
        load_settings(tmp_path / "latin.yaml", {})


def test_a_secret_of_a_variable_is_named_without_a_source(tmp_path: Path) -> None:
    found = problems(tmp_path, "{}", {"JUDGESTREAM_KAFKA__SECURITY__KEY_PASSWORD": SECRET})
    remedy = "remove it or choose an SSL protocol"
    assert found == (f"kafka.security.key_password: has no effect with protocol PLAINTEXT; {remedy}",)


@pytest.mark.parametrize("text", ["kafka: text", "kafka: [text]"])
def test_a_variable_below_what_is_no_mapping(tmp_path: Path, text: str) -> None:
    found = problems(tmp_path, text, {"JUDGESTREAM_KAFKA__GROUP_ID": "g"})
    assert "JUDGESTREAM_KAFKA__GROUP_ID: its parent in the file is not a mapping" in found[0]


def test_a_long_list_of_the_wrong_kind_is_no_long_error(tmp_path: Path) -> None:
    found = problems(tmp_path, f"telemetry: {{labels: [{', '.join(['{}'] * 3_000)}]}}")
    assert len(found) == 51
    assert found[-1] == "and 2950 more problems; correct these first"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("JUDGE__ENDPOINTS", f"[{{name: a, api_key: {SECRET}}}"),
        ("JUDGE__ENDPOINTS", f"[{{name: a, api_key: {SECRET}}}]"),
        ("JUDGE__ENDPOINTS", f"[{{name: a, model: m, api_key: [{SECRET}]}}]"),
        ("KAFKA__SECURITY__PASSWORD", SECRET),
        ("KAFKA__SECURITY__PASSWROD", SECRET),
    ],
)
def test_no_message_shows_a_secret_of_a_variable(tmp_path: Path, name: str, value: str) -> None:
    problems(tmp_path, "", {f"JUDGESTREAM_{name}": value})
