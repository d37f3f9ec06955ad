from __future__ import annotations

import re
from pathlib import Path

import pytest

from judge.metrics.registry import metric_names
from streams.errors import SettingsError
from streams.settings import SecuritySettings, Settings, load_settings

SECRET = "sk-Very-Secret-1"


def write(folder: Path, text: str) -> Path:
    file = folder / "settings.yaml"
    file.write_text(text, encoding="utf-8")
    return file


def problems(folder: Path, text: str, env: dict[str, str] | None = None) -> tuple[str, ...]:
    with pytest.raises(SettingsError) as caught:
        load_settings(write(folder, text), env or {})
    return caught.value.problems


def test_defaults_alone_are_valid() -> None:
    """Without file and environment the settings are the defaults, with both built-in metrics."""
    settings = load_settings(None, {})
    assert settings == Settings()
    assert list(settings.metrics) == ["coverage", "relevance"]
    assert settings.metrics["coverage"].when.has == ("reference",)
    assert settings.metrics["relevance"].when.has == ("context",)


def test_the_file_is_read(tmp_path: Path) -> None:
    """The settings of a file are read and normalized."""
    settings = load_settings(
        write(
            tmp_path,
            """
            kafka:
              bootstrap_servers: "kafka:9092, other:9093"
              security: {protocol: SASL_SSL, mechanism: SCRAM-SHA-512, username: u, password_env: PW}
            sampling: {default_rate: 0.05, rules: [{name: gold, when: {tenant: gold, tier: [1, true]}, rate: 1.0}]}
            metrics:
              coverage: {when: {has: [reference]}}
              tone: {prompt_pack: packs/tone.md, score_range: [1, 5], when: {labels: {app: support}}, rate: 0.2}
            judge:
              endpoints: [{name: primary, base_url: "http://127.0.0.1:1/v1/", model: m, api_key_env: OPENAI_API_KEY}]
            telemetry:
            """,  # noqa: E501
        ),
        {},
    )
    assert settings.kafka.bootstrap_servers == "kafka:9092,other:9093"
    # YAML's 1 and true become the texts of an event's labels.
    assert settings.sampling.rules[0].when == {"tenant": ("gold",), "tier": ("1", "true")}
    assert settings.metrics["tone"].prompt_pack == tmp_path / "packs/tone.md"
    assert settings.metrics["tone"].score_range == (1, 5)
    assert settings.judge.endpoints[0].base_url == "http://127.0.0.1:1/v1"
    assert settings.telemetry.port == 8080


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n"])
def test_an_empty_file_means_the_defaults(tmp_path: Path, text: str) -> None:
    assert load_settings(write(tmp_path, text), {}) == Settings()


def test_environment_overrides_the_file(tmp_path: Path) -> None:
    """Variables override the file; numbers, lists and mappings are parsed as YAML or JSON."""
    file = write(tmp_path, "kafka: {group_id: a, session_timeout_seconds: 20}\nsampling: {default_rate: 0.5}")
    settings = load_settings(
        file,
        {
            "JUDGESTREAM_KAFKA__GROUP_ID": "007",
            "JUDGESTREAM_SAMPLING__DEFAULT_RATE": "1e-3",
            "JUDGESTREAM_SAMPLING__RULES": '[{"name": "gold", "when": {"tenant": "gold"}, "rate": 1}]',
            "JUDGESTREAM_METRICS__COVERAGE__RATE": "0.25",
            "JUDGESTREAM_METRICS__TONE__PROMPT_PACK": "p.md",
            "JUDGESTREAM_TELEMETRY": "{port: 0, labels: [app]}",
            "JUDGESTREAM_TELEMETRY__LOG_LEVEL": "debug",
            "OTHER": "x",
        },
    )
    assert settings.kafka.group_id == "007"
    assert settings.kafka.session_timeout_seconds == 20
    assert settings.sampling.default_rate == 0.001
    assert settings.sampling.rules[0].name == "gold"
    assert list(settings.metrics) == ["coverage", "tone"]
    assert settings.metrics["coverage"].rate == 0.25
    assert settings.metrics["tone"].prompt_pack == tmp_path / "p.md"
    assert settings.telemetry.port == 0
    assert settings.telemetry.log_level == "debug"


def test_the_process_environment_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUDGESTREAM_KAFKA__GROUP_ID", "mine")
    assert load_settings().kafka.group_id == "mine"


def test_a_password_from_the_environment_stays_text() -> None:
    """A password of digits stays text and is not in the repr."""
    settings = load_settings(
        None,
        {
            "JUDGESTREAM_KAFKA__SECURITY": "{protocol: SASL_SSL, mechanism: PLAIN, username: u}",
            "JUDGESTREAM_KAFKA__SECURITY__PASSWORD": "0123",
        },
    )
    password = settings.kafka.security.password
    assert password is not None
    assert password.read("kafka.security.password").get_secret_value() == "0123"
    assert "0123" not in repr(settings)


def refused() -> list[tuple[str, str]]:
    """Return each text in refused.txt with the lines of its problems."""
    text = (Path(__file__).parent / "refused.txt").read_text(encoding="utf-8")
    text = text.replace("<metrics>", ", ".join(metric_names()))
    text = text.replace("<fields>", ", ".join(SecuritySettings.model_fields))
    return re.findall(r"^(\S.*)\n((?:    .*\n)+)", text, re.MULTILINE)


@pytest.mark.parametrize(("text", "expected"), refused())
def test_each_problem_names_path_limit_value_and_remedy(tmp_path: Path, text: str, expected: str) -> None:
    """Invalid and contradictory settings are reported with path, limit, value and remedy."""
    assert "".join(f"    {problem}\n" for problem in problems(tmp_path, text)) == expected


def test_all_problems_come_at_once(tmp_path: Path) -> None:
    """All problems of file and environment are reported together."""
    found = problems(
        tmp_path,
        "sampling: {default_rate: -1}\njudge: {max_in_flight: 0}\nkafka: {security: {protocol: SASL_SSL}}",
        {"JUDGESTREAM_KAFKA__GROUPID": "x"},
    )
    assert found == (
        "JUDGESTREAM_KAFKA__GROUPID is not a setting; did you mean JUDGESTREAM_KAFKA__GROUP_ID?",
        "kafka.security.mechanism: is required with protocol SASL_SSL; set it",
        "kafka.security.username: is required with protocol SASL_SSL; set it",
        "kafka.security.password_env: is required with protocol SASL_SSL; set it or password_file",
        "sampling.default_rate: must be at least 0.0 (got -1); raise it",
        "judge.max_in_flight: must be at least 1 (got 0); raise it",
    )


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("JUDGESTREAM_SAMPLNG__DEFAULT_RATE", "did you mean JUDGESTREAM_SAMPLING__DEFAULT_RATE?"),
        ("JUDGESTREAM_SAMPLING__RATE", "under JUDGESTREAM_SAMPLING there are: default_rate, rules, key"),
        ("JUDGESTREAM_METRICS__COVERAGE__RAET", "did you mean JUDGESTREAM_METRICS__COVERAGE__RATE?"),
        ("JUDGESTREAM_SAMPLNG__NOTHING", "did you mean JUDGESTREAM_SAMPLING?"),
        ("JUDGESTREAM_KAFKA__GROUP_ID__X", "remove it"),
        ("JUDGESTREAM_", "there are: kafka, topics, "),
    ],
)
def test_unknown_variables_are_refused_with_a_suggestion(name: str, remedy: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings(None, {name: "1"})
    assert str(caught.value).startswith(f"{name} is not a setting; ")
    assert remedy in str(caught.value)


def test_a_variable_of_a_removed_setting_is_refused_with_the_reason() -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings(None, {"JUDGESTREAM_JUDGE__RETRY__FIRST_WAIT_SECONDS": "1"})
    assert str(caught.value).startswith(
        "JUDGESTREAM_JUDGE__RETRY__FIRST_WAIT_SECONDS was removed: pauses double"
    )


def test_a_variable_below_what_is_no_mapping(tmp_path: Path) -> None:
    found = problems(tmp_path, "kafka: text", {"JUDGESTREAM_KAFKA__GROUP_ID": "g"})
    assert "JUDGESTREAM_KAFKA__GROUP_ID: its parent in the file is not a mapping" in found[0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("kafka: {group_id: a\n  b: [}", "is not valid YAML at line 2, column 4"),
        ("kafka: {group_id: a, group_id: b}", "at line 1, column 22: 'group_id' is given twice; keep one"),
        ("a: &x {b: 1}\nc: {<<: *x, <<: *x}", "is not a setting"),
        ("- a\n- b", "must be a mapping of sections (got a list)"),
        ("just text", "must be a mapping of sections (got 'just text')"),
        ("a: 2024-99-99", "a is not a setting"),
        ("a: !!python/object/apply:os.system [ls]", "is not valid YAML at line 1, column 4"),
        ("? [a]\n: b", "is not valid YAML"),
        ("a: \x00", "is not valid YAML"),
        ("[" * 5000, "is nested too deeply"),
        ("a: &x [*x]", "an alias is inside its own anchor"),
        (
            "judge: {endpoints: [{name: a, model: m, parameters: &x {y: *x}}]}",
            "an alias is inside its own anchor",
        ),
        ("a: !!timestamp x", "a is not a setting"),
        ("a: !!set [a]", "only plain values are taken"),
        ("a: !!bool x", "not of the type that its tag names"),
        ("a: !!int ''", "not of the type that its tag names"),
        ("a: !!python/object:os.system {}", "only plain values are taken"),
        ("? [a]\n: b", "a key must be a text"),
        (f"a: {'1:' * 200}1", "more than 100 characters"),
        (f"a: 0x{'f' * 5000}", "more than 100 characters"),
        ("a: b\n" * 70_000, "characters, at most 262144 are read"),
        (
            "\n".join(["a: &a0 [x]", *(f"b{n}: &a{n + 1} [{', '.join([f'*a{n}'] * 9)}]" for n in range(9))]),
            "aliases make more than",
        ),
    ],
)
def test_broken_files_say_where(tmp_path: Path, text: str, expected: str) -> None:
    assert expected in "\n".join(problems(tmp_path, text))


def test_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"nothing\.yaml: cannot be read \(No such file"):
        load_settings(tmp_path / "nothing.yaml", {})
    (tmp_path / "latin.yaml").write_bytes(b"kafka: \xff")
    with pytest.raises(SettingsError, match="is not UTF-8"):
        load_settings(tmp_path / "latin.yaml", {})


@pytest.mark.parametrize(
    ("text", "env"),
    [
        (
            f"kafka: {{security: {{protocol: SASL_SSL, mechanism: PLAIN, username: u, password: {SECRET}}}}}",
            {},
        ),
        (f"judge: {{endpoints: [{{name: a, model: m, api_key: {SECRET}}}]}}", {}),
        (f"judge: {{endpoints: [{{name: a, api_key: {SECRET}}}]}}", {}),
        (f"judge: {{endpoints: [{{name: a, model: m, api_kye: {SECRET}}}]}}", {}),
        (f"judge: {{endpoints: [{{name: a, model: m, api_key_env: {SECRET}}}]}}", {}),
        (f"judge: {{endpoints: [{{name: a, model: m, base_url: 'http://u:{SECRET}@h/v1'}}]}}", {}),
        (f"judge: {{endpoints: {{api_key: {SECRET}}}}}", {}),
        (f"kafka: {{security: {{password: [{SECRET}]}}}}", {}),
        ("", {"JUDGESTREAM_JUDGE__ENDPOINTS": f"[{{name: a, api_key: {SECRET}}}"}),
        ("", {"JUDGESTREAM_JUDGE__ENDPOINTS": f"[{{name: a, api_key: {SECRET}}}]"}),
        ("", {"JUDGESTREAM_JUDGE__ENDPOINTS": f"[{{name: a, model: m, api_key: [{SECRET}]}}]"}),
        ("", {"JUDGESTREAM_KAFKA__SECURITY__PASSWORD": SECRET}),
        ("", {"JUDGESTREAM_KAFKA__SECURITY__PASSWROD": SECRET}),
    ],
)
def test_no_message_shows_a_secret(tmp_path: Path, text: str, env: dict[str, str]) -> None:
    """No error message contains the value of a secret."""
    with pytest.raises(SettingsError) as caught:
        load_settings(write(tmp_path, text), env)
    assert SECRET not in str(caught.value)
    assert SECRET not in repr(caught.value)


def test_a_secret_in_the_file_is_an_error_that_says_so(tmp_path: Path) -> None:
    found = problems(tmp_path, f"judge: {{endpoints: [{{name: a, model: m, api_key: {SECRET}}}]}}")
    (problem,) = found
    assert problem == (
        "judge.endpoints.0.api_key: must not be in the file; use api_key_env (an environment variable's "
        "name) or api_key_file, and replace this one: it has been exposed"
    )


@pytest.mark.parametrize(
    ("escape", "code"), [("\\0", "0000"), ("\\e", "001B"), ("\\x7f", "007F"), ("\\ud800", "D800")]
)
def test_a_control_character_is_refused_with_its_path(tmp_path: Path, escape: str, code: str) -> None:
    """A control character in any text is refused with its path."""
    found = problems(tmp_path, f'store: {{path: "a{escape}b"}}\nmonitor: {{labels: ["x{escape}"]}}')
    assert f"store.path: has the control character U+{code}; remove it" in found
    assert f"monitor.labels.0: has the control character U+{code}; remove it" in found


def test_a_long_list_of_the_wrong_kind_is_no_long_error(tmp_path: Path) -> None:
    """The first 50 problems are listed, and the rest counted."""
    found = problems(tmp_path, f"telemetry: {{labels: [{', '.join(['{}'] * 3_000)}]}}")
    assert len(found) == 51
    assert found[-1] == "and 2950 more problems; correct these first"
