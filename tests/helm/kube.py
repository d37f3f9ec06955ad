"""A Kubernetes API server for a test: etcd and kube-apiserver on loopback, without controllers or nodes.

Objects created here do not run; the test is that the server accepts them.
"""

from __future__ import annotations

import secrets
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.integration.kafka import free_ports
from tests.toolbox import run, tool

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
