from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import yaml
from jsonschema import Draft202012Validator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

from tests.places import ROOT
from tests.toolbox import kubernetes_schemas, run, tool

CHART = ROOT / "helm"
FILES = CHART / "files"
CI_VALUES = tuple(sorted((CHART / "ci").glob("*-values.yaml")))
RELEASE = "quality-of-answers"
NAMESPACE = "ml"

CUSTOM_GROUPS: Final = frozenset({"gateway.networking.k8s.io", "keda.sh", "monitoring.coreos.com"})
"""API groups that are not part of Kubernetes."""

Manifest = dict[str, Any]


def name_of(values: Path) -> str:
    """The subject of a test values file: `split` for split-values.yaml."""
    return values.name.removesuffix("-values.yaml")


def load(path: Path) -> Any:
    return yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)


def schema() -> dict[str, Any]:
    document: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    return document


@lru_cache(maxsize=64)
def render(*arguments: str) -> str:
    return run(tool("helm"), "template", RELEASE, CHART, "--namespace", NAMESPACE, *arguments)


def manifests(*arguments: str) -> list[Manifest]:
    # The C loader: dashboards and rules are ten thousand lines.
    return [document for document in yaml.load_all(render(*arguments), Loader=yaml.CSafeLoader) if document]


def rendered(values: Path) -> list[Manifest]:
    return manifests("--values", str(values))


def of_kind(documents: list[Manifest], kind: str, component: str | None = None) -> list[Manifest]:
    return [
        document
        for document in documents
        if document["kind"] == kind
        and component in {None, document["metadata"].get("labels", {}).get("app.kubernetes.io/component")}
    ]


def pods(documents: list[Manifest]) -> dict[str, dict[str, Any]]:
    found = {}
    for document in documents:
        name = f"{document['kind']}/{document['metadata']['name']}"
        if document["kind"] == "Pod":
            found[name] = document["spec"]
        elif "template" in document.get("spec", {}):
            found[name] = document["spec"]["template"]["spec"]
    return found


def workers(documents: list[Manifest]) -> list[Manifest]:
    return [*of_kind(documents, "Deployment"), *of_kind(documents, "StatefulSet")]


def validator(version: str, document: Manifest) -> Draft202012Validator:
    group, _, api = document["apiVersion"].rpartition("/")
    stem = "-".join(part for part in (document["kind"].lower(), group.partition(".")[0], api) if part)
    return _validator(version, stem)


@lru_cache(maxsize=128)
def _validator(version: str, stem: str) -> Draft202012Validator:
    """Kubernetes' JSON Schemas in the strict form: an unknown field is an error."""
    folder = kubernetes_schemas() / f"v{version}-standalone-strict"
    return Draft202012Validator(_read(folder / f"{stem}.json"), registry=_registry(folder))


@lru_cache(maxsize=8)
def _registry(folder: Path) -> Registry[Any]:
    definitions = Resource.from_contents(
        _read(folder / "_definitions.json"), default_specification=DRAFT202012
    )
    registry: Registry[Any] = Registry().with_resource("_definitions.json", definitions)
    return registry


def _read(file: Path) -> Any:
    return json.loads(file.read_text(encoding="utf-8"))
