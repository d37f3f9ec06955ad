#!/usr/bin/env python3
"""Builds and publishes a release, step by step: `release.py [--dry-run] STEP...`.

`--dry-run` builds everything and prints what would be published. `release.py list` prints the steps in
order. The release workflow calls this and has no step of its own. Needs requirements/release.txt, helm, and
an image engine (ENGINE); to publish also cosign and gh. REGISTRY names where image and chart go, TAG is the
tag that is released.
"""
# ruff: noqa: T201 - a script, which prints

from __future__ import annotations

import hashlib
import os
import platform
import re
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
DIST: Final = ROOT / "dist"
ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}


class Release:
    """What is released, and the steps."""

    def __init__(self, root: Path = ROOT, *, dry_run: bool = False) -> None:
        self.root = root
        self.dry_run = dry_run
        self.project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        self.version: str = self.project["version"]
        self.engine = os.environ.get("ENGINE", "docker")
        self.registry = os.environ.get("REGISTRY", "registry.example.com/judgestream")
        self.image = f"{self.registry}/judgestream"
        self.chart_file = f"dist/judgestream-{self.version}.tgz"

    def check(self) -> None:
        """Fail unless package, chart, image, changelog and tag have one version."""
        chart = (self.root / "helm/Chart.yaml").read_text(encoding="utf-8")
        found = {
            "helm/Chart.yaml: version": _only(r'^version: "?([^"\n]+)"?$', chart),
            "helm/Chart.yaml: appVersion": _only(r'^appVersion: "?([^"\n]+)"?$', chart),
            "CHANGELOG.md: the first released version": _first(r"^## \[(\d[^\]]*)\]", self._changelog()),
        }
        tag = os.environ.get("TAG")
        if tag:
            found["TAG"] = tag.removeprefix("v")
        wrong = [f"{name} is {value}" for name, value in found.items() if value != self.version]
        if tag and re.search(r"^## \[Unreleased\]\n+[^#\s\[]", self._changelog(), re.MULTILINE):
            wrong.append("CHANGELOG.md has changes under Unreleased: put them under the version")
        if wrong:
            raise SystemExit(f"pyproject.toml says {self.version}, but " + "; ".join(wrong))

    def packages(self) -> None:
        """Build wheel and source distribution; their README must show on a package index."""
        self._run(sys.executable, "-m", "build", "--no-isolation", "--outdir", "dist")
        self._run(sys.executable, "-m", "twine", "check", "--strict", *self._distributions())

    def bill(self) -> None:
        """Write the bill of materials."""
        self._run("make", "sbom")

    def chart(self) -> None:
        """Pack the chart."""
        self._run("helm", "package", "helm", "--destination", "dist")

    def docs(self) -> None:
        """Build the documentation into an archive whose folder is the version's."""
        self._run("make", "docs")
        DIST.mkdir(exist_ok=True)
        with tarfile.open(DIST / f"docs-{self.version}.tar.gz", "w:gz") as packed:
            packed.add(self.root / "site", arcname=self.version)

    def notes(self) -> None:
        """Write the notes of the version from the changelog."""
        DIST.mkdir(exist_ok=True)
        (DIST / "notes.md").write_text(self.notes_of_version(), encoding="utf-8")

    def notes_of_version(self) -> str:
        """The section of the changelog that the version has."""
        heading = rf"^## \[{re.escape(self.version)}\][^\n]*\n(.*?)(?=^## |^\[[^\]]+\]: |\Z)"
        section = re.search(heading, self._changelog(), re.MULTILINE | re.DOTALL)
        if section is None or not section[1].strip():
            raise SystemExit(f"CHANGELOG.md says nothing about {self.version}")
        return section[1].strip() + "\n"

    def build_image(self) -> None:
        """Build the image for this machine's architecture."""
        self._run("make", "image", f"ENGINE={self.engine}", f"IMAGE={self._image_here()}")

    def sums(self) -> None:
        """Write the checksums of all files to publish."""
        files = sorted(path for path in DIST.iterdir() if path.name != "SHA256SUMS")
        lines = (f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files)
        (DIST / "SHA256SUMS").write_text("".join(lines), encoding="utf-8")

    def push_image(self) -> None:
        """Push this architecture's image."""
        self._publish(self.engine, "push", self._image_here())

    def publish_image(self) -> None:
        """Join the architectures' images under the version and the minor version, and sign."""
        parts = [f"{self.image}:{self.version}-{architecture}" for architecture in ARCHITECTURES.values()]
        tags = [self.version, self.version.rpartition(".")[0]]
        named = [part for tag in tags for part in ("--tag", f"{self.image}:{tag}")]
        self._publish("docker", "buildx", "imagetools", "create", *named, *parts)
        self._publish("cosign", "sign", "--yes", "--recursive", f"{self.image}:{self.version}")

    def publish_chart(self) -> None:
        """Push and sign the chart."""
        self._publish("helm", "push", self.chart_file, f"oci://{self.registry}/charts")
        self._publish("cosign", "sign", "--yes", f"{self.registry}/charts/judgestream:{self.version}")

    def publish_packages(self) -> None:
        """Attest and upload wheel and source distribution, without a stored password."""
        self._publish(sys.executable, "-m", "pypi_attestations", "sign", *self._distributions())
        self._publish(sys.executable, "-m", "twine", "upload", "--attestations", *self._distributions())

    def publish_docs(self) -> None:
        """Put the documentation beside that of earlier versions; `latest` is a copy."""
        pages = "build/pages"
        self._publish("git", "fetch", "origin", "gh-pages")
        self._publish("git", "worktree", "add", "--force", pages, "FETCH_HEAD")
        self._publish("tar", "-xzf", f"dist/docs-{self.version}.tar.gz", "-C", pages)
        self._publish("rm", "-rf", f"{pages}/latest")
        self._publish("cp", "-r", f"{pages}/{self.version}", f"{pages}/latest")
        self._publish("git", "-C", pages, "add", "--all")
        self._publish("git", "-C", pages, "commit", "--message", f"Documentation of {self.version}")
        self._publish("git", "-C", pages, "push", "origin", "HEAD:gh-pages")

    def publish_release(self) -> None:
        """Create the release with its notes and files."""
        files = [
            str(path.relative_to(self.root)) for path in sorted(DIST.iterdir()) if path.name != "notes.md"
        ]
        self._publish(
            "gh",
            "release",
            "create",
            f"v{self.version}",
            "--verify-tag",
            "--notes-file",
            "dist/notes.md",
            *files,
        )

    def _changelog(self) -> str:
        return (self.root / "CHANGELOG.md").read_text(encoding="utf-8")

    def _distributions(self) -> list[str]:
        return [f"dist/judgestream-{self.version}{end}" for end in ("-py3-none-any.whl", ".tar.gz")]

    def _image_here(self) -> str:
        return f"{self.image}:{self.version}-{ARCHITECTURES[platform.machine()]}"

    def _run(self, *command: str) -> None:
        print("$", *command, flush=True)
        subprocess.run(command, cwd=self.root, check=True)  # noqa: S603 - the steps above

    def _publish(self, *command: str) -> None:
        if self.dry_run:
            print("would run:", *command, flush=True)
        else:
            self._run(*command)


STEPS: Final[dict[str, Callable[[Release], None]]] = {
    "check": Release.check,
    "packages": Release.packages,
    "bill": Release.bill,
    "chart": Release.chart,
    "docs": Release.docs,
    "notes": Release.notes,
    "sums": Release.sums,
    "build-image": Release.build_image,
    "push-image": Release.push_image,
    "publish-image": Release.publish_image,
    "publish-chart": Release.publish_chart,
    "publish-packages": Release.publish_packages,
    "publish-docs": Release.publish_docs,
    "publish-release": Release.publish_release,
}


def _only(pattern: str, text: str) -> str:
    (found,) = re.findall(pattern, text, re.MULTILINE)
    return str(found)


def _first(pattern: str, text: str) -> str:
    found = re.search(pattern, text, re.MULTILINE)
    return found[1] if found else "missing"


def main(arguments: list[str]) -> None:
    """Run the steps that are named."""
    wanted = [argument for argument in arguments if argument != "--dry-run"]
    if wanted == ["list"]:
        print(*STEPS, sep="\n")
        return
    unknown = [step for step in wanted if step not in STEPS]
    if unknown or not wanted:
        raise SystemExit(f"usage: release.py [--dry-run] STEP...; steps: {', '.join(STEPS)}")
    release = Release(dry_run="--dry-run" in arguments)
    for step in wanted:
        print(f"=== {step}", flush=True)
        STEPS[step](release)


if __name__ == "__main__":
    main(sys.argv[1:])
