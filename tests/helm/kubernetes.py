"""Kubernetes' JSON Schemas in the strict form: an unknown field is an error."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from jsonschema import Draft202012Validator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

from tests.helm.chart import Manifest
from tests.toolbox import kubernetes_schemas

CUSTOM_GROUPS: Final = frozenset({"gateway.networking.k8s.io", "keda.sh", "monitoring.coreos.com"})
"""API groups that are not part of Kubernetes."""


def validator(version: str, document: Manifest) -> Draft202012Validator:
    group, _, api = document["apiVersion"].rpartition("/")
    stem = "-".join(part for part in (document["kind"].lower(), group.partition(".")[0], api) if part)
    return _validator(version, stem)


@lru_cache(maxsize=128)
def _validator(version: str, stem: str) -> Draft202012Validator:
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
