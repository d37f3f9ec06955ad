from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.chaos import earlier
from tests.helm.chart import CHART, CI_VALUES, Manifest, load, name_of, pods, rendered
from tests.helm.kube import Cluster, cluster
from tests.helm.kubernetes import CUSTOM_GROUPS
from tests.places import ROOT
from tests.toolbox import custom_resource_definitions

pytestmark = [pytest.mark.tools, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """An API server with the definitions of KEDA, the Prometheus Operator and the Gateway API."""
    folder = tmp_path_factory.mktemp("kubernetes")
    with cluster(folder) as found:
        arguments = [part for path in custom_resource_definitions() for part in ("--filename", path)]
        found.kubectl("apply", "--server-side", *arguments)
        found.kubectl("wait", "--for=condition=Established", "--timeout=60s", *arguments)
        found.kubectl("create", "namespace", "monitoring")
        yield found


@pytest.fixture(scope="module")
def last_chart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return earlier.extract(tmp_path_factory.mktemp("last"), "helm") / "helm"


def _install(server: Cluster, namespace: str, values: Path, *arguments: str, chart: Path = CHART) -> str:
    return server.helm(
        "upgrade", "--install", "quality", chart, "--namespace", namespace, "--create-namespace", "--values",
        values,
        "--no-hooks", *arguments,
    )  # fmt: skip


def _create_strictly(server: Cluster, documents: list[Manifest], folder: Path, namespace: str) -> None:
    file = folder / "manifests.json"  # JSON is parsed ten times as fast as YAML
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": documents}), encoding="utf-8")
    server.kubectl(
        "create", "--dry-run=server", "--validate=strict", "--namespace", namespace, "--filename", file
    )


@pytest.mark.parametrize("values", CI_VALUES, ids=name_of)
def test_the_server_accepts_install_and_upgrade(server: Cluster, values: Path, tmp_path: Path) -> None:
    """From the default values and back; each object, hooks included, also passes strict validation alone."""
    namespace = f"up-{name_of(values)}"
    _install(server, namespace, CHART / "ci" / "default-values.yaml")
    _create_strictly(server, _without_place(rendered(values)), tmp_path, namespace)
    said = _install(server, namespace, values)
    assert "judgestream 0.1.0 is installed" in said
    _install(server, namespace, CHART / "ci" / "default-values.yaml", "--set", "commonLabels.again=yes")
    server.helm("uninstall", "quality", "--namespace", namespace, "--no-hooks")


def _without_place(documents: list[Manifest]) -> list[Manifest]:
    for document in documents:
        document["metadata"].pop("namespace", None)
    return documents


@pytest.mark.parametrize("values", CI_VALUES, ids=name_of)
def test_the_last_release_is_upgraded_and_rolled_back(
    server: Cluster, last_chart: Path, values: Path, tmp_path: Path
) -> None:
    namespace = f"last-{name_of(values)}"
    last, now = last_chart / "ci" / values.name, tmp_path / values.name
    now.write_text(last.read_text(encoding="utf-8").replace(", tasks_prefix: quality.tasks.", ""))
    _install(server, namespace, last, chart=last_chart)
    _install(server, namespace, now)
    server.helm("rollback", "quality", "1", "--namespace", namespace, "--no-hooks")
    server.helm("uninstall", "quality", "--namespace", namespace, "--no-hooks")


def test_a_volume_is_enlarged_by_the_commands_of_the_manual(server: Cluster) -> None:
    namespace, values = "volumes", CHART / "ci" / "statefulset-values.yaml"
    _install(server, namespace, values)
    with pytest.raises(AssertionError, match="updates to statefulset spec"):
        _install(server, namespace, values, "--set", "worker.cache.size=4Gi")
    manual = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"^\$ kubectl -n quality (delete statefulset .*)$", manual, re.MULTILINE)
    server.kubectl("--namespace", namespace, *command.split(), "--wait=false")
    # What the garbage collector does, which does not run here, once it has orphaned the pods.
    finalizers = ("--type=merge", "--patch", '{"metadata":{"finalizers":null}}')
    server.kubectl("--namespace", namespace, "patch", "statefulset", "quality-judgestream", *finalizers)
    _install(server, namespace, values, "--set", "worker.cache.size=4Gi")
    said = server.kubectl(
        "--namespace", namespace, "get", "statefulset", "quality-judgestream", "--output", "json"
    )
    (claim,) = json.loads(said)["spec"]["volumeClaimTemplates"]
    assert claim["spec"]["resources"]["requests"]["storage"] == "4Gi"


def test_installs_of_one_namespace_do_not_touch_each_other(server: Cluster) -> None:
    for release in ("one", "two"):
        server.helm(
            "install", release, CHART, "--namespace", "shared", "--create-namespace", "--no-hooks",
            "--values", CHART / "ci" / "statefulset-values.yaml",
        )  # fmt: skip
    found = yaml.safe_load(
        server.kubectl("get", "services,statefulsets", "--namespace", "shared", "--output", "yaml")
    )
    by_release: dict[str, list[dict[str, str]]] = {"one": [], "two": []}
    for item in found["items"]:
        selector = item["spec"]["selector"]
        by_release[item["metadata"]["labels"]["app.kubernetes.io/instance"]].append(
            selector.get("matchLabels", selector)
        )
    assert all(len(selectors) == 3 for selectors in by_release.values())
    for release, selectors in by_release.items():
        assert {selector["app.kubernetes.io/instance"] for selector in selectors} == {release}


def test_restricted_namespaces_admit_every_pod(server: Cluster, tmp_path: Path) -> None:
    server.kubectl("create", "namespace", "restricted")
    server.kubectl("label", "namespace", "restricted", "pod-security.kubernetes.io/enforce=restricted")
    server.kubectl("create", "priorityclass", "background", "--value=-10")
    found = {
        f"{name_of(values)}-{name.replace('/', '-').lower()}": pod
        for values in CI_VALUES
        if values.name != "full-values.yaml"  # it has foreign containers
        for name, pod in pods(rendered(values)).items()
    }
    assert len(found) > len(CI_VALUES)
    documents: list[Manifest] = [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": _startable(pod)}
        for name, pod in found.items()
    ]
    _create_strictly(server, documents, tmp_path, "restricted")
    (broken,) = documents[:1]
    broken["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = True
    with pytest.raises(AssertionError, match="violates PodSecurity"):
        _create_strictly(server, [broken], tmp_path, "restricted")


def _startable(pod: dict[str, Any]) -> dict[str, Any]:
    """Add the volumes of claims, which a controller would add."""
    volumes = {one["name"] for one in pod.get("volumes", [])}
    claimed = {
        mount["name"] for container in pod["containers"] for mount in container.get("volumeMounts", [])
    } - volumes
    added = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claimed]
    return {**pod, "volumes": [*pod.get("volumes", []), *added]}


def test_the_definitions_are_those_of_the_kinds_that_are_made() -> None:
    known = {load(path)["spec"]["names"]["kind"] for path in custom_resource_definitions()}
    made = {
        document["kind"]
        for values in CI_VALUES
        for document in rendered(values)
        if document["apiVersion"].partition("/")[0] in CUSTOM_GROUPS
    }
    assert made == known
