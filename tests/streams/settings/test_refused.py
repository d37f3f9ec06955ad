"""What is refused, and how: refused.txt has the message of each problem, once."""

from __future__ import annotations

import re
from pathlib import Path

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
