from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from streams.settings.judge import default_endpoints
from streams.settings.load import load_settings
from tests.places import ROOT
from tests.toolbox import run, tool

_COMPOSE = ROOT / "compose.yaml"
_FOLDER = ROOT / "deploy" / "compose"


def _yaml(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


SERVICES: dict[str, dict[str, Any]] = _yaml(_COMPOSE)["services"]


def test_every_service_says_whether_it_is_well() -> None:
    without = {name for name, service in SERVICES.items() if service.get("healthcheck", {}).get("disable")}
    assert without == {"pod", "replay"}
    assert {name for name, service in SERVICES.items() if "healthcheck" not in service} == {"worker"}


def test_images_are_pinned_ports_on_loopback_and_secrets_from_the_environment() -> None:
    for name, service in SERVICES.items():
        assert "build" in service or re.search(r":v?\d+\.\d+\.\d+$", service["image"]), name
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ())), name
        environment = service.get("environment", {})
        secrets = [key for key in environment if re.search(r"KEY|PASSWORD|TOKEN|SECRET", key)]
        assert all(str(environment[key]).startswith("${") for key in secrets), name
    assert any("ports" in service for service in SERVICES.values())


def test_every_mounted_file_exists() -> None:
    mounts = [volume.split(":") for service in SERVICES.values() for volume in service.get("volumes", ())]
    sources = [parts[0] for parts in mounts if parts[0].startswith("./")]
    assert sources
    assert [source for source in sources if not (ROOT / source).exists()] == []
    assert all(parts[-1] == "ro" for parts in mounts if parts[0].startswith("./"))


def test_the_settings_name_the_other_services() -> None:
    settings = load_settings(_FOLDER / "judgestream.yaml", {})
    listeners = SERVICES["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"]
    assert f"INSIDE://{settings.kafka.bootstrap_servers}" in listeners.split(",")
    assert settings.topics.create
    (job,) = (
        one for one in _yaml(_FOLDER / "prometheus.yml")["scrape_configs"] if one["job_name"] == "judgestream"
    )
    assert job["static_configs"] == [{"targets": [f"worker:{settings.telemetry.port}"]}]


def test_without_any_variable_the_offline_judge_judges() -> None:
    environment = SERVICES["worker"]["environment"]
    defaults = {name: re.sub(r"^\$\{\w+:-(.*)\}$", r"\1", value) for name, value in environment.items()}
    (endpoint,) = default_endpoints({**defaults, "OPENAI_API_KEY": "a key that lies around"})
    port = SERVICES["offline-judge"]["command"][-1]
    assert endpoint.base_url == f"http://127.0.0.1:{port}/v1"
    assert endpoint.model == "offline-rules-1"
    assert SERVICES["offline-judge"]["network_mode"] == SERVICES["worker"]["network_mode"]


def test_the_home_dashboard_and_the_data_source_exist() -> None:
    home = SERVICES["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    (provider,) = _yaml(_FOLDER / "grafana" / "dashboards" / "judgestream.yaml")["providers"]
    folder = provider["options"]["path"]
    assert f"./helm/files/dashboards:{folder}:ro" in SERVICES["grafana"]["volumes"]
    assert (ROOT / "helm" / "files" / "dashboards" / Path(home).relative_to(folder)).is_file()
    (source,) = _yaml(_FOLDER / "grafana" / "datasources" / "prometheus.yaml")["datasources"]
    told = (source["type"], source["url"], source["isDefault"])
    assert told == ("prometheus", "http://prometheus:9090", True)


def test_the_script_of_the_replay_parses() -> None:
    run("sh", "-n", _FOLDER / "replay.sh")
    assert "demo_events.py" in (_FOLDER / "replay.sh").read_text(encoding="utf-8")


@pytest.mark.tools
def test_the_programs_take_their_configurations(tmp_path: Path) -> None:
    assert "ok" in run(tool("composecheck"), _COMPOSE)
    assert "SUCCESS" in run(tool("amtool"), "check-config", _FOLDER / "alertmanager.yml")
    shutil.copy(_FOLDER / "prometheus.yml", tmp_path)
    (tmp_path / "judgestream").symlink_to(ROOT / "helm" / "files")
    said = run(tool("promtool"), "check", "config", tmp_path / "prometheus.yml")
    assert "is valid prometheus config file syntax" in said
    assert said.count("rules found") == 2, said
