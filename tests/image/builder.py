from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.places import ROOT
from tests.toolbox import ended, image_base, run, tool

BASE_IMAGE = "docker.io/library/python:3.13-slim"


@dataclass(frozen=True, slots=True)
class Built:
    size_bytes: int
    config: Mapping[str, Any]
    root: Path
    log: str


class Builder:
    """A store of images; `close` removes it."""

    def __init__(self, folder: Path) -> None:
        if os.geteuid() != 0:
            pytest.fail("building an image needs root; run the tests marked `tools` as root")
        self._folder = folder
        self._containers: list[str] = []

    def make_base(self) -> None:
        context = self._folder / "base"
        context.mkdir(parents=True)
        shutil.copy(image_base(), context / "base.tar")
        (context / "Dockerfile").write_text('FROM scratch\nADD base.tar /\nCMD ["python3"]\n')
        self._buildah("bud", "--tag", BASE_IMAGE, context)

    def build(
        self, context: Path, *, tag: str, arguments: Mapping[str, str], target: str | None = None
    ) -> Built:
        # The Dockerfile names its base by digest, which the archive does not have.
        named = {"BASE": BASE_IMAGE, **arguments}
        options = [f"--build-arg={name}={value}" for name, value in named.items()]
        options += [] if target is None else [f"--target={target}"]
        # Only the docker format has health checks.
        log = self._buildah("bud", "--pull-never", "--format", "docker", "--tag", tag, *options, context)
        described = json.loads(self._buildah("inspect", "--type", "image", f"localhost/{tag}"))
        container = self._buildah("from", "--pull-never", f"localhost/{tag}").strip()
        self._containers.append(container)
        root = Path(self._buildah("mount", container).strip())
        # buildah rounds the size to three digits ("274 MB").
        number, unit = json.loads(self._buildah("images", "--json", f"localhost/{tag}"))[0]["size"].split()
        size_bytes = int(float(number) * {"KB": 1e3, "MB": 1e6, "GB": 1e9}[unit])
        return Built(size_bytes, described["Docker"]["config"], root, log)

    def close(self) -> None:
        for container in self._containers:
            self._buildah("umount", container)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _buildah(self, *arguments: str | Path) -> str:
        folders = f"--root={self._folder / 'store'}", f"--runroot={self._folder / 'run'}"
        command = [tool("buildah"), *folders, "--storage-driver=vfs", *map(str, arguments)]
        environment = os.environ | {"BUILDAH_ISOLATION": "chroot"}
        for _ in range(3):
            done = ended(*command, env=environment, seconds=900)
            if "sealing memfd copy: Device or resource busy" not in done.stderr:
                break  # else the runtime was scheduled badly on a busy machine, and started nothing
        assert done.returncode == 0, f"{' '.join(command)}:\n{done.stdout}\n{done.stderr}"
        return done.stdout if arguments[0] != "bud" else done.stdout + done.stderr


def copy_of_the_project(folder: Path, *more: str) -> None:
    """Copy its tracked files, and others by options of `git ls-files`."""
    listed = run("git", "-C", ROOT, "ls-files", "-z", "--cached", *more)
    for name in filter(None, listed.split("\0")):
        source, target = ROOT / name, folder / name
        if source.is_file():  # skips removed files
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)


# Runs a command like a container engine: unprivileged, with a read-only root and /tmp in memory.
# Each step replaces the shell, so that the started process is the command and gets the signals.
_ENTER = """
set -eu
root=$1; shift
mount --bind "$root" "$root"
while [ "$1" != -- ]; do mount --bind "$1" "$root$2"; mount -o remount,ro,bind "$root$2"; shift 2; done; shift
mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for device in null zero urandom random; do
  : > "$root/dev/$device"; mount --bind "/dev/$device" "$root/dev/$device"
done
mount -o remount,ro "$root/dev"
mount -o remount,ro,bind "$root"
exec chroot "$root" "$@"
"""


def inside(image: Built, words: Sequence[str], files: Mapping[str, Path] | None = None) -> list[str]:
    user, group = image.config["User"].split(":")
    mounts: list[str] = []
    for path, source in (files or {}).items():
        # An engine creates the mount point in the container's layer.
        place = image.root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch()
        mounts += [str(source), path]
    dropped = ["--reuid", user, "--regid", group, "--clear-groups", "--no-new-privs", "--inh-caps=-all"]
    folder = f'cd {shlex.quote(image.config["WorkingDir"])} && exec "$@"'
    enter = [tool("unshare"), "--mount", "--ipc", "sh", "-c", _ENTER, "sh", str(image.root), *mounts, "--"]
    unprivileged = ["setpriv", *dropped, "--bounding-set=-all", "env", "-i", *image.config["Env"]]
    return [*enter, *unprivileged, "sh", "-c", folder, "sh", *words]


def run_inside(image: Built, *words: str, seconds: float = 60) -> subprocess.CompletedProcess[str]:
    return ended(*inside(image, words), seconds=seconds, stdin=subprocess.DEVNULL)
