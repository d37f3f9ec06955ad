"""Runs an image's command like a container engine: unprivileged, with a read-only root and /tmp in memory."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.image.builder import Built
from tests.toolbox import ended, tool

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
