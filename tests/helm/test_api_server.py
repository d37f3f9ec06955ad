from __future__ import annotations

import json
import re
import secrets
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.chaos import earlier
from tests.helm.chart import CHART, CI_VALUES, CUSTOM_GROUPS, load, name_of, rendered
from tests.integration.kafka import free_ports
from tests.places import ROOT
from tests.toolbox import custom_resource_definitions, run, tool

pytestmark = [pytest.mark.tools, pytest.mark.timeout(300)]

START_SECONDS = 60.0
STOP_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Cluster:
    kubeconfig: Path

    def kubectl(self, *arguments: str | Path) -> str:
        return run(tool("kubectl"), "--kubeconfig", self.kubeconfig, *arguments)

    def helm(self, *arguments: str | Path) -> str:
        return run(tool("helm"), "--kubeconfig", self.kubeconfig, *arguments)


@contextmanager
def cluster(folder: Path) -> Iterator[Cluster]:
    """An API server and its etcd on loopback; without controllers and nodes, objects do not run."""
    token, (etcd_port, peer_port, port) = secrets.token_hex(16), free_ports(3)
    key, tokens, kubeconfig = folder / "accounts.key", folder / "tokens.csv", folder / "kubeconfig"
    run(tool("openssl"), "genrsa", "-out", key, "2048")
    tokens.write_text(f"{token},admin,1,system:masters\n", encoding="utf-8")
    kubeconfig.write_text(
        f"""\
apiVersion: v1
kind: Config
clusters: [{{name: test, cluster: {{server: "https://127.0.0.1:{port}", insecure-skip-tls-verify: true}}}}]
users: [{{name: test, user: {{token: "{token}"}}}}]
contexts: [{{name: test, context: {{cluster: test, user: test}}}}]
current-context: test
""",
        encoding="utf-8",
    )
    kubeconfig.chmod(0o600)  # else Helm warns
    etcd, peer = f"http://127.0.0.1:{etcd_port}", f"http://127.0.0.1:{peer_port}"
    with ExitStack() as stack:
        stack.enter_context(
            _running(
                folder / "etcd.log",
                tool("etcd"),
                f"--data-dir={folder / 'etcd'}",
                "--unsafe-no-fsync",
                f"--listen-client-urls={etcd}",
                f"--advertise-client-urls={etcd}",
                f"--listen-peer-urls={peer}",
                f"--initial-advertise-peer-urls={peer}",
                f"--initial-cluster=default={peer}",
            )
        )
        server = stack.enter_context(  # ends first: without etcd it hangs at its end
            _running(
                folder / "kube-apiserver.log",
                tool("kube-apiserver"),
                f"--etcd-servers={etcd}",
                f"--cert-dir={folder / 'certificates'}",
                "--bind-address=127.0.0.1",
                f"--secure-port={port}",
                "--service-cluster-ip-range=10.0.0.0/24",
                "--service-account-issuer=https://kubernetes.default.svc",
                f"--service-account-key-file={key}",
                f"--service-account-signing-key-file={key}",
                f"--token-auth-file={tokens}",
                "--authorization-mode=RBAC",
                # A controller creates the accounts of namespaces, and none runs here.
                "--disable-admission-plugins=ServiceAccount",
                "--shutdown-delay-duration=0s",
            )
        )
        found = Cluster(kubeconfig)
        _wait(found, server, folder / "kube-apiserver.log")
        yield found


def _wait(found: Cluster, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    command = [tool("kubectl"), "--kubeconfig", str(found.kubeconfig), "get", "--raw", "/readyz"]
    while subprocess.run(command, capture_output=True, check=False).returncode:
        said = log.read_text(encoding="utf-8", errors="replace")[-2000:]
        assert server.poll() is None, f"kube-apiserver ended: {said}"
        assert time.monotonic() < deadline, f"kube-apiserver is not ready within {START_SECONDS:g} s: {said}"
        time.sleep(0.2)  # poll


@contextmanager
def _running(log: Path, *command: str) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


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


@pytest.mark.parametrize("values", CI_VALUES, ids=name_of)
def test_the_server_accepts_install_and_upgrade(server: Cluster, values: Path, tmp_path: Path) -> None:
    """From the default values and back; each object, hooks included, also passes strict validation alone."""
    namespace = f"up-{name_of(values)}"
    _install(server, namespace, CHART / "ci" / "default-values.yaml")
    documents = rendered(values)
    for document in documents:
        document["metadata"].pop("namespace", None)
    file = tmp_path / "manifests.json"  # JSON is parsed ten times as fast as YAML
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": documents}), encoding="utf-8")
    server.kubectl(
        "create", "--dry-run=server", "--validate=strict", "--namespace", namespace, "--filename", file
    )
    said = _install(server, namespace, values)
    assert "judgestream 0.1.0 is installed" in said
    _install(server, namespace, CHART / "ci" / "default-values.yaml", "--set", "commonLabels.again=yes")
    server.helm("uninstall", "quality", "--namespace", namespace, "--no-hooks")


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


def test_the_definitions_are_those_of_the_kinds_that_are_made() -> None:
    known = {load(path)["spec"]["names"]["kind"] for path in custom_resource_definitions()}
    made = {
        document["kind"]
        for values in CI_VALUES
        for document in rendered(values)
        if document["apiVersion"].partition("/")[0] in CUSTOM_GROUPS
    }
    assert made == known
