from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from prometheus_client import CollectorRegistry

from generate import settings_page
from generate.chart_schema import with_settings
from streams.errors import SettingsError
from streams.settings import problems
from streams.settings.load import load_settings, mask, settings_schema
from streams.settings.problems import Renamed, former_settings
from streams.settings.tree import Settings
from streams.settings.walk import type_at
from streams.worker.worker import Worker

NAMES = {
    "kafka.group": "kafka.group_id",
    "kafka.security.pass": "kafka.security.password",
    "kafka.security.pass_env": "kafka.security.password_env",
    "metrics.*.share": "metrics.*.rate",
    "judge.endpoints.*.url": "judge.endpoints.*.base_url",
    "monitor.port": "telemetry.port",
    "outputs": "sinks",
}
ENDPOINT = "judge: {endpoints: [{name: a, model: m, url: 'http://127.0.0.1:1/v1'}]}"
pytestmark = pytest.mark.usefixtures("version")
SASL = "kafka: {security: {protocol: SASL_SSL, mechanism: PLAIN, username: me"


@pytest.fixture
def version(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """A function that sets the version of the package; rows of 1.1 that end with 1.2 are in the table."""
    rows = {old: Renamed(old, new, "1.1", "1.2") for old, new in NAMES.items()}
    monkeypatch.setattr(problems, "former_settings", lambda: {"judge.retry": "it is fixed; remove it"} | rows)

    def be(release: str) -> None:
        monkeypatch.setattr(problems, "version", lambda _: release)

    be("1.1.3")
    return be


def load(folder: Path, text: str, **variables: str) -> Settings:
    file = folder / "settings.yaml"
    file.write_text(text, encoding="utf-8")
    return load_settings(file, {f"JUDGESTREAM_{name}": value for name, value in variables.items()})


@pytest.mark.parametrize(
    ("old", "variables", "new", "names"),
    [
        ("kafka: {group: 'g'}", {}, "kafka: {group_id: g}", ["kafka.group"]),
        ("", {"KAFKA__GROUP": "007"}, "kafka: {group_id: '007'}", ["kafka.group"]),
        ("kafka: {group: a}", {"KAFKA__GROUP": "b"}, "kafka: {group_id: b}", ["kafka.group"]),
        ("monitor: {port: 7}", {}, "telemetry: {port: 7}", ["monitor.port"]),
        ("monitor: {port: 7}\ntelemetry:", {}, "telemetry: {port: 7}", ["monitor.port"]),
        (
            "metrics: {coverage: &half {share: 0.5}, relevance: *half}", {},
            "metrics: {coverage: {rate: 0.5}, relevance: {rate: 0.5}}", ["metrics.coverage.share"],
        ),
        (
            "", {"METRICS__COVERAGE__SHARE": "0.25", "METRICS": "{relevance: {share: 0.5}}"},
            "metrics: {relevance: {rate: 0.5}, coverage: {rate: 0.25}}",
            ["metrics.relevance.share", "metrics.coverage.share"],
        ),
        (ENDPOINT, {}, ENDPOINT.replace("url", "base_url"), ["judge.endpoints.0.url"]),
        (
            "outputs: {x: {kind: webhook}}",
            {"OUTPUTS__X__URL": "https://h", "OUTPUTS__X__SECRET_ENV": "S"},
            "sinks: {x: {kind: webhook, url: 'https://h', secret_env: S}}", ["outputs"],
        ),
        (f"{SASL}, pass_env: P}}}}", {}, f"{SASL}, password_env: P}}}}", ["kafka.security.pass_env"]),
        (
            f"{SASL}}}}}", {"KAFKA__SECURITY__PASS_ENV": "P"},
            f"{SASL}, password_env: P}}}}", ["kafka.security.pass_env"],
        ),
    ],
)  # fmt: skip
def test_an_old_name_means_the_new_one(
    tmp_path: Path, old: str, variables: dict[str, str], new: str, names: list[str]
) -> None:
    settings = load(tmp_path, old, **variables)
    assert mask(settings) == mask(load(tmp_path, new))
    assert [line.split()[:2] for line in settings.deprecated] == [["DEPRECATED:", name] for name in names]
    assert "*" not in "".join(settings.deprecated), "the new name is that of this entry, too"


def test_a_secret_under_its_old_name_is_not_shown(tmp_path: Path) -> None:
    settings = load(tmp_path, f"{SASL}}}}}", KAFKA__SECURITY__PASS="sk-Very-Secret-1")
    assert "Very" not in f"{settings!r}{mask(settings)}{settings.deprecated}"
    with pytest.raises(SettingsError) as caught:
        load(tmp_path, f"{SASL}, pass: sk-Very-Secret-1}}}}")
    assert "Very" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "variables"),
    [
        ("kafka: {group: a, group_id: a}", {}),
        ("kafka: {group: a}", {"KAFKA__GROUP_ID": "b"}),
        ("kafka: {group_id: a}", {"KAFKA__GROUP": "b"}),
        ("", {"KAFKA__GROUP": "a", "KAFKA__GROUP_ID": "b"}),
    ],
)
def test_both_names_are_an_error(tmp_path: Path, text: str, variables: dict[str, str]) -> None:
    with pytest.raises(SettingsError) as caught:
        load(tmp_path, text, **variables)
    assert caught.value.problems == (
        "kafka.group: is the old name of kafka.group_id, which is given too; remove it",
    )


@pytest.mark.parametrize("release", ["1.2.0", "1.2.0rc1", "1.10.0", "2.0.0"])
def test_after_its_end_an_old_name_is_refused_with_the_new_one(
    tmp_path: Path, version: Callable[[str], None], release: str
) -> None:
    version(release)
    with pytest.raises(SettingsError) as caught:
        load(tmp_path, f"metrics: {{coverage: {{share: 1}}}}\n{ENDPOINT}", KAFKA__GROUP="g")
    assert set(caught.value.problems) >= {
        "JUDGESTREAM_KAFKA__GROUP was removed: set kafka.group_id",
        "metrics.coverage.share was removed: set metrics.coverage.rate",
        "judge.endpoints.0.url was removed: set judge.endpoints.0.base_url",
    }


@pytest.mark.parametrize("text", ["telemetry: [1]", "telemetry: no"])
def test_a_parent_that_is_no_mapping_is_reported(tmp_path: Path, text: str) -> None:
    with pytest.raises(SettingsError, match="telemetry: must be a mapping"):
        load(tmp_path, f"monitor: {{port: 7}}\n{text}")


def test_editors_and_the_chart_accept_old_names(version: Callable[[str], None]) -> None:
    """Else `helm install` would refuse what a worker takes; after its end both refuse it."""
    config = {"kafka": {"group": "g"}, "metrics": {"coverage": {"share": 0.5}}, "outputs": {}}
    values: dict[str, Any] = {"$defs": {}, "$ref": "#/$defs/settings"}
    jsonschema.validate(config, settings_schema())
    jsonschema.validate(config, with_settings(values))
    version("1.2.0")
    for schema in (settings_schema(), with_settings(values)):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(config, schema)


def test_a_worker_exports_how_many_it_was_given(tmp_path: Path) -> None:
    for text, count in (("kafka: {group: g}\nmonitor: {port: 0}", 2), ("", 0)):
        registry = CollectorRegistry()
        Worker(load(tmp_path, text), agents=["monitor"], registry=registry, env={})
        assert registry.get_sample_value("judgestream_deprecated_settings") == count


def test_the_page_lists_them(monkeypatch: pytest.MonkeyPatch) -> None:
    before, _, table = settings_page.page().partition("## Old names")
    assert "| `judge.budget_usd_per_day` | `judge.budget.usd_per_day` | 0.1 | 0.2 |" in table
    monkeypatch.setattr(settings_page, "former_settings", problems.former_settings)
    page, _, table = settings_page.page().partition("## Old names")
    assert page == before
    assert "| `metrics.*.share` | `metrics.*.rate` | 1.1 | 1.2 |" in table


def test_every_row_of_the_table_is_sound() -> None:
    for row in former_settings().values():
        if isinstance(row, Renamed):
            old, new = (
                [0 if part == "*" else part for part in name.split(".")] for name in (row.old, row.new)
            )
            assert type_at(Settings, new) is not None
            assert type_at(Settings, old) is None
            assert type_at(Settings, old[:-1]) is not None
            (major, minor), end = (tuple(map(int, one.split("."))) for one in (row.since, row.ends))
            assert end in {(major, minor + 1), (major + 1, 0)}
