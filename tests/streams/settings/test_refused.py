"""What is refused, and how: refused.txt has the message of each problem, once."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from judge.metrics.registry import metric_names
from streams.errors import SettingsError
from streams.settings.broker import SecuritySettings
from streams.settings.load import load_settings

SECRET = "sk-Very-Secret-1"


def problems(folder: Path, text: str, env: dict[str, str] | None = None) -> tuple[str, ...]:
    file = folder / "settings.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(SettingsError) as caught:
        load_settings(file, env or {})
    assert SECRET not in repr(caught.value)
    return caught.value.problems


def refused() -> list[tuple[str, str]]:
    """Return each text in refused.txt with the lines of its problems."""
    text = (Path(__file__).parent / "refused.txt").read_text(encoding="utf-8")
    text = text.replace("<metrics>", ", ".join(metric_names()))
    text = text.replace("<fields>", ", ".join(SecuritySettings.model_fields))
    return re.findall(r"^(\S.*)\n((?:    .*\n)+)", text, re.MULTILINE)


@pytest.mark.parametrize(("text", "expected"), refused())
def test_each_problem_names_path_limit_value_and_remedy(tmp_path: Path, text: str, expected: str) -> None:
    assert "".join(f"    {problem}\n" for problem in problems(tmp_path, text)) == expected


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
        (
            "SAMPLING__RATE",
            "is not a setting; under JUDGESTREAM_SAMPLING there are: default_rate, rules",
        ),
        ("METRICS__COVERAGE__RAET", "is not a setting; did you mean JUDGESTREAM_METRICS__COVERAGE__RATE?"),
        ("SAMPLNG__NOTHING", "is not a setting; did you mean JUDGESTREAM_SAMPLING?"),
        ("KAFKA__GROUP_ID__X", "is not a setting; remove it"),
        ("", "is not a setting; under JUDGESTREAM_ there are: kafka, topics, "),
        ("JUDGE__RETRY__FIRST_WAIT_SECONDS", "was removed: pauses double from 0.5 s to 30 s"),
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
        ("judge: {endpoints: [{name: a, model: m, parameters: &x {y: *x}}]}", "is inside its own anchor"),
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
)  # fmt: skip
def test_broken_files_say_where(tmp_path: Path, text: str, expected: str) -> None:
    assert expected in "\n".join(problems(tmp_path, text))


def test_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"nothing\.yaml: cannot be read \(No such file"):
        load_settings(tmp_path / "nothing.yaml", {})
    (tmp_path / "latin.yaml").write_bytes(b"kafka: \xff")
    with pytest.raises(SettingsError, match="is not UTF-8"):
        load_settings(tmp_path / "latin.yaml", {})


@pytest.mark.parametrize("text", ["kafka: text", "kafka: [text]"])
def test_a_variable_below_what_is_no_mapping(tmp_path: Path, text: str) -> None:
    found = problems(tmp_path, text, {"JUDGESTREAM_KAFKA__GROUP_ID": "g"})
    assert "JUDGESTREAM_KAFKA__GROUP_ID: its parent in the file is not a mapping" in found[0]


@pytest.mark.parametrize(
    ("escape", "code"), [("\\0", "0000"), ("\\e", "001B"), ("\\x7f", "007F"), ("\\ud800", "D800")]
)
def test_a_control_character_is_refused_with_its_path(tmp_path: Path, escape: str, code: str) -> None:
    found = problems(tmp_path, f'store: {{path: "a{escape}b"}}\nmonitor: {{labels: ["x{escape}"]}}')
    assert f"store.path: has the control character U+{code}; remove it" in found
    assert f"monitor.labels.0: has the control character U+{code}; remove it" in found


def test_a_long_list_of_the_wrong_kind_is_no_long_error(tmp_path: Path) -> None:
    """The first 50 problems are listed, and the rest counted."""
    found = problems(tmp_path, f"telemetry: {{labels: [{', '.join(['{}'] * 3_000)}]}}")
    assert len(found) == 51
    assert found[-1] == "and 2950 more problems; correct these first"


def endpoint(**fields: Any) -> str:
    return json.dumps({"judge": {"endpoints": [{"name": "a", "model": "m", **fields}]}})


@pytest.mark.parametrize(
    ("text", "env"),
    [
        (f"kafka: {{security: {{protocol: SASL_SSL, mechanism: PLAIN, password: {SECRET}}}}}", {}),
        (f"judge: {{endpoints: [{{name: a, api_key: {SECRET}}}]}}", {}),
        (endpoint(api_kye=SECRET), {}),
        (endpoint(api_key_env=SECRET), {}),
        (f"judge: {{endpoints: {{api_key: {SECRET}}}}}", {}),
        (f"kafka: {{security: {{password: [{SECRET}]}}}}", {}),
        (f"kafka: {{bootstrap_servers: 'user:{SECRET}@kafka:9092'}}", {}),
        ("", {"JUDGESTREAM_JUDGE__ENDPOINTS": f"[{{name: a, api_key: {SECRET}}}"}),
        ("", {"JUDGESTREAM_JUDGE__ENDPOINTS": f"[{{name: a, api_key: {SECRET}}}]"}),
        ("", {"JUDGESTREAM_JUDGE__ENDPOINTS": f"[{{name: a, model: m, api_key: [{SECRET}]}}]"}),
        ("", {"JUDGESTREAM_KAFKA__SECURITY__PASSWORD": SECRET}),
        ("", {"JUDGESTREAM_KAFKA__SECURITY__PASSWROD": SECRET}),
    ],
)  # fmt: skip
def test_no_message_shows_a_secret(tmp_path: Path, text: str, env: dict[str, str]) -> None:
    problems(tmp_path, text, env)


@pytest.mark.parametrize(
    "address",
    [
        f"https://api.example.com/v1?key={SECRET}",
        f"https://api.example.com/v1?api-version=1&subscription={SECRET}",
        f"https://api.example.com/v1?{SECRET}",
        f"https://api.example.com/v1#{SECRET}",
        f"https://user:{SECRET}@api.example.com/v1",
        f"ftp://api.example.com/v1?key={SECRET}",
        f"https://[api.example.com/v1?key={SECRET}",
        f"https://api.example.com/v1?{'&'.join([f'a={SECRET}'] * 50)}",
        f"https://api.example.com/sk-proj-abcdefgh{SECRET}/v1",
        f"https://api.example.com/v1?api-version=sk-proj-abcdefgh{SECRET}",
    ],
)
def test_an_address_with_a_secret_is_refused_and_not_repeated(tmp_path: Path, address: str) -> None:
    (problem,) = problems(tmp_path, endpoint(base_url=address))
    assert problem.startswith("judge.endpoints.0.base_url: ")


@pytest.mark.parametrize(
    "address",
    [
        f"https://user:{SECRET}@registry.example.com",
        f"https://registry.example.com:{SECRET}",
        f"https://registry.example.com?access_token={SECRET}",
        f"https://hooks.slack.com/services/T00000000/B00000000/{SECRET.replace('-', '0')}00000000",
        f"https://registry.example.com/glpat-abcdefghijkl{SECRET}/x",
    ],
)
def test_addresses_of_other_services_hold_no_secret_either(tmp_path: Path, address: str) -> None:
    (problem,) = problems(tmp_path, json.dumps({"ingest": {"registry": {"url": address}}}))
    assert problem.startswith("ingest.registry.url: ")


@pytest.mark.parametrize(
    "parameters",
    [
        {"api_key": SECRET},
        {"apiKey": SECRET},
        {"extra_headers": {"X-Tenant": SECRET}},
        {"metadata": {"auth-token": SECRET}},
        {"metadata": [{"password": SECRET}]},
        {"user": f"Bearer {SECRET}"},
        {"user": "sk-proj-abcdefghijklmnopqrstuvwx"},
    ],
)
def test_a_parameter_that_is_a_secret_is_refused(tmp_path: Path, parameters: dict[str, Any]) -> None:
    (problem,) = problems(tmp_path, endpoint(parameters=parameters))
    assert "published in every result" in problem
    assert "sk-proj" not in problem
