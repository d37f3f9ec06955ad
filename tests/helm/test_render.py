from __future__ import annotations

import json
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from streams.kafka.topics.table import group_of
from streams.settings.load import load_settings
from tests.helm.chart import (
    CHART,
    CI_VALUES,
    CUSTOM_GROUPS,
    FILES,
    RELEASE,
    Manifest,
    load,
    manifests,
    name_of,
    of_kind,
    pods,
    rendered,
    validator,
    workers,
)
from tests.helm.renders import GOLDEN, golden, text_of
from tests.places import blocks
from tests.toolbox import ended, kubernetes_versions, run, tool

pytestmark = pytest.mark.tools

each_values = pytest.mark.parametrize("values", CI_VALUES, ids=name_of)
FULL = CHART / "ci" / "full-values.yaml"


@each_values
def test_helm_lints(values: Path) -> None:
    assert "0 chart(s) failed" in run(tool("helm"), "lint", "--strict", CHART, "--values", values)


@each_values
def test_the_render_is_the_committed_one(values: Path) -> None:
    assert text_of(values) == golden(values).read_text(encoding="utf-8"), (
        "run python -m tests.helm.renders and look"
    )


def test_no_golden_render_is_left_over() -> None:
    assert sorted(GOLDEN.glob("*.yaml")) == sorted(map(golden, CI_VALUES))


# Schemas


@pytest.mark.parametrize("version", ["1.30.0", "1.32.0", "1.34.0", "1.37.0"])
def test_several_versions_of_kubernetes_accept_every_field(version: str) -> None:
    assert version in kubernetes_versions()
    assert load(CHART / "Chart.yaml")["kubeVersion"] == f">={kubernetes_versions()[0]}-0"
    checked = 0
    for values in CI_VALUES:
        for document in rendered(values):
            if document["apiVersion"].partition("/")[0] in CUSTOM_GROUPS:
                continue  # checked by their types and by the API server
            problems = validator(version, document).iter_errors(document)
            assert [f"{error.json_path}: {error.message[:200]}" for error in problems] == [], document["kind"]
            checked += 1
    assert checked > 80


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("--kube-version=1.29.9", "kubeVersion: >=1.30.0-0"),
        ("--set=worker.replica=3", "at '/worker': additional properties 'replica' not allowed"),
        ("--set=config.kafka.security.password=hunter2", "at '/config/kafka/security/password'"),
    ],
)  # fmt: skip
def test_helm_checks_the_version_and_the_values_schema(given: str, said: str) -> None:
    done = ended(tool("helm"), "template", "one", CHART, given)
    assert done.returncode != 0
    assert said in done.stderr
    assert "hunter2" not in done.stderr


# Settings


def _settings_file(documents: list[Manifest], folder: Path) -> Path:
    (deployment, *_) = workers(documents)
    sources = deployment["spec"]["template"]["spec"]["volumes"][0]["projected"]["sources"]
    maps = {one["metadata"]["name"]: one["data"] for one in of_kind(documents, "ConfigMap")}
    for source in sources:
        for item in source["configMap"]["items"]:
            file = folder / item["path"]
            file.parent.mkdir(exist_ok=True)
            data = maps.get(source["configMap"]["name"], {})
            file.write_text(data.get(item["key"], _PACK), encoding="utf-8")
    return folder / "config.yaml"


_PACK = """\
## System

Reply with JSON only: {"score": 3, "justification": "one sentence"}

## User

{{ item.input }} {{ item.output_text }}
"""


@each_values
def test_judgestream_accepts_the_settings(values: Path, tmp_path: Path) -> None:
    documents = rendered(values)
    file = _settings_file(documents, tmp_path)
    given = (load(values) or {}).get("config", {})
    found = load(file)
    for section, settings in given.items():
        for name, value in settings.items():
            assert found[section][name] == value, f"{section}.{name}"
    # Without the keys and files of Secrets.
    assert load_settings(file, {}).model_fields_set >= given.keys()


@each_values
def test_every_worker_gets_the_variables_and_files_of_its_settings(values: Path) -> None:
    documents = rendered(values)
    (config,) = [one for one in of_kind(documents, "ConfigMap") if "config.yaml" in one["data"]][:1]
    settings = yaml.safe_load(config["data"]["config.yaml"])
    variables = set(_named(settings, "_env"))
    files = [file for file in _named(settings, "_file") if file.startswith("/")]
    for name, pod in pods([*workers(documents)]).items():
        container = pod["containers"][0]
        brought = {one["name"] for one in container.get("env", [])}
        assert variables <= brought, name
        mounts = [one["mountPath"] for one in container["volumeMounts"]]
        assert all(any(file.startswith(f"{mount}/") for mount in mounts) for file in files), name


def _named(node: Any, ending: str) -> list[str]:
    if isinstance(node, list):
        return [found for one in node for found in _named(one, ending)]
    if isinstance(node, dict):
        own = [value for key, value in node.items() if key.endswith(ending) and isinstance(value, str)]
        return own + [found for one in node.values() for found in _named(one, ending)]
    return []


def test_a_change_of_settings_or_prompts_rolls_the_pods_and_nothing_else_does() -> None:
    def checksum(*arguments: str) -> str:
        (one,) = workers(manifests(*arguments))
        found: str = one["spec"]["template"]["metadata"]["annotations"]["checksum/config"]
        return found

    base = checksum()
    assert checksum("--set", "worker.replicas=5") == base
    changed = {
        checksum("--set", "config.sampling.default_rate=0.5"),
        checksum("--set", r"promptPacks.tone\.md=a"),
        checksum("--set", r"promptPacks.tone\.md=b"),
    }
    assert len(changed | {base}) == 4


def _documented() -> list[tuple[str, str]]:
    found = []
    for page in (CHART / "README.md", CHART.parent / "docs" / "deploy.md"):
        shown = [block for block in blocks(page, "yaml") if block.startswith("# values.yaml\n")]
        found += [(f"{page.name}-{number}", block) for number, block in enumerate(shown)]
    return found


@pytest.mark.parametrize(
    ("page", "values"), _documented(), ids=lambda value: value if len(value) < 40 else ""
)
def test_documented_values_install(
    page: str, values: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(values, encoding="utf-8")
    documents = manifests("--values", str(file))
    kind = load(file).get("worker", {}).get("kind", "Deployment")
    found = {(one["kind"], one["metadata"]["name"].removeprefix(RELEASE)) for one in documents}
    assert not page.startswith("deploy") or found >= {("Service", "-judgestream"), (kind, "-judgestream")}
    for name in [name for name in os.environ if name.startswith("JUDGESTREAM_")]:
        monkeypatch.delenv(name)
    load_settings(_settings_file(documents, tmp_path))


# Security


_RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "privileged": False,
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
}


@each_values
def test_every_pod_is_restricted_and_no_manifest_holds_a_secret(values: Path) -> None:
    """The Pod Security Standard `restricted`, with a read-only root, no token and bounded memory."""
    documents = rendered(values)
    assert of_kind(documents, "Secret") == []
    for name, pod in pods(documents).items():
        assert pod["automountServiceAccountToken"] is False, name
        assert pod["enableServiceLinks"] is False, name
        security = pod["securityContext"]
        assert security["runAsNonRoot"] is True, name
        assert (security["runAsUser"], security["runAsGroup"]) == (65532, 65532), name
        assert security["seccompProfile"] == {"type": "RuntimeDefault"}, name
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod), name
        kinds = {kind for volume in pod.get("volumes", ()) for kind in volume.keys() - {"name"}}
        assert kinds <= {"projected", "configMap", "secret", "emptyDir", "persistentVolumeClaim"}, name
        containers = [*pod.get("initContainers", []), *pod["containers"]]
        # The full values add containers of others.
        ours = [one for one in containers if values != FULL or "judgestream" in one["image"]]
        assert ours, name
        for container in ours:
            assert not any("hostPort" in port for port in container.get("ports", ())), name
            assert container["securityContext"] == _RESTRICTED, name
            assert {"memory"} <= set(container["resources"]["limits"]), name
            assert {"cpu", "memory"} <= set(container["resources"]["requests"]), name


# Rules and dashboards


def test_rules_and_dashboards_arrive_as_they_are() -> None:
    documents = manifests("--set", "prometheusRule.enabled=true,dashboards.enabled=true")
    rules = {
        one["metadata"]["name"].rpartition("-")[2]: one["spec"]
        for one in of_kind(documents, "PrometheusRule")
    }
    assert rules == {name: load(FILES / f"{name}.yaml") for name in ("rules", "alerts")}
    dashboards = {
        file: json.loads(text)
        for one in of_kind(documents, "ConfigMap")
        if "-dashboard-" in one["metadata"]["name"]
        for file, text in one["data"].items()
    }
    assert dashboards == {
        f"judgestream-{path.name}": json.loads(path.read_text(encoding="utf-8"))
        for path in (FILES / "dashboards").glob("*.json")
    }


def test_all_workers_of_a_release_are_read_once() -> None:
    documents = manifests(
        "--values", str(FULL), "--set", "podMonitor.enabled=false,serviceMonitor.enabled=true"
    )
    (monitor,) = of_kind(documents, "ServiceMonitor")
    wanted = monitor["spec"]["selector"]["matchLabels"]
    picked = [
        service
        for service in of_kind(documents, "Service")
        if wanted.items() <= service["metadata"]["labels"].items()
        and "app.kubernetes.io/component" not in service["metadata"]["labels"]
    ]
    assert len(picked) == 1
    selector = picked[0]["spec"]["selector"].items()
    labels = {
        one["metadata"]["name"]: one["spec"]["template"]["metadata"]["labels"].items()
        for one in documents
        if "template" in one.get("spec", {})
    }
    assert {name for name, own in labels.items() if selector <= own} == {
        one["metadata"]["name"] for one in workers(documents)
    }


# Scaling


def test_triggers_ask_for_the_groups_and_topics_of_the_workers(tmp_path: Path) -> None:
    values = CHART / "ci" / "keda-values.yaml"
    documents = manifests("--values", str(values), "--set", "split.intake.autoscaling.keda.enabled=true",
                          "--set", "split.monitor.autoscaling.keda.enabled=true")  # fmt: skip
    settings = load_settings(_settings_file(documents, tmp_path), env={})
    reads = {
        "intake": [settings.topics.events],
        "judge": [settings.topics.task_topic(metric) for metric in settings.metrics],
        "monitor": [settings.topics.scores],
    }
    for part, topics in reads.items():
        (scaled,) = of_kind(documents, "ScaledObject", part)
        found = [trigger["metadata"] for trigger in scaled["spec"]["triggers"]]
        assert [one["topic"] for one in found] == sorted(topics)
        assert {one["consumerGroup"] for one in found} == {group_of(settings.kafka.group_id, [part])}  # type: ignore[list-item] # a name of an agent


# Package


def test_the_package_holds_the_chart_alone(tmp_path: Path) -> None:
    run(tool("helm"), "package", CHART, "--destination", tmp_path)
    (archive,) = tmp_path.glob("*.tgz")
    with tarfile.open(archive) as opened:
        names = {name.removeprefix("judgestream/") for name in opened.getnames()}
    expected = {"Chart.yaml", "README.md", "values.yaml", "values.schema.json", ".helmignore"}
    expected |= {f"templates/{path.name}" for path in (CHART / "templates").iterdir()}
    expected |= {"files/rules.yaml", "files/alerts.yaml"}
    expected |= {f"files/dashboards/{path.name}" for path in (FILES / "dashboards").glob("*.json")}
    assert names == expected
    assert archive.stat().st_size < 200_000  # Helm stores it in base64 in a Secret of at most 1 MiB
    packed = run(tool("helm"), "template", "one", archive, "--values", FULL)
    assert packed == run(tool("helm"), "template", "one", CHART, "--values", FULL)


def test_names_stay_short_enough() -> None:
    """At most 63 characters, of a StatefulSet 52: its pods' label adds eleven."""
    release = "r" * 53
    values = "mode=split,worker.kind=StatefulSet,topicsJob.enabled=true"
    said = run(tool("helm"), "template", release, CHART, "--set", values)
    for document in yaml.safe_load_all(said):
        assert len(document["metadata"]["name"]) <= (52 if document["kind"] == "StatefulSet" else 63)
