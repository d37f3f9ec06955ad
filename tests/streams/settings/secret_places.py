from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args, get_origin

from streams.settings.base import Secret
from streams.settings.walk import section_of, unwrap


def places(declared: Any, path: str = "") -> Iterator[str]:
    """Yield the places of secrets in a type; `*` stands for an index or a name."""
    kind, section = unwrap(declared), section_of(declared)
    if kind is Secret:
        yield path
    elif section is not None:
        for name, field in section.model_fields.items():
            yield from places(field.annotation, f"{path}.{name}".lstrip("."))
    elif get_origin(kind) in {dict, tuple, list}:
        yield from places(get_args(kind)[-1] if get_origin(kind) is dict else get_args(kind)[0], f"{path}.*")
