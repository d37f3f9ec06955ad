"""Sections whose `kind` names a class of an installed package, which knows the section's fields."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from typing import Any, ClassVar, Literal, Self

from pydantic import (
    BaseModel,
    GetJsonSchemaHandler,
    ModelWrapValidatorHandler,
    ValidationInfo,
    create_model,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema

from judge.errors import ExtensionError
from judge.extensions import Group, load, names
from streams.settings.base import Section, refuse


class KindSection(Section):
    """A section whose `kind` is the name of an entry point, and whose fields are those of its `Settings`.

    A direct subclass is the base class of its group; its fields are those of every kind.
    """

    group: ClassVar[Group]
    kind: str

    @model_validator(mode="wrap")
    @classmethod
    def _of_its_kind(
        cls, given: Any, validate: ModelWrapValidatorHandler[Self], info: ValidationInfo
    ) -> Self:
        if not cls._is_base() or not isinstance(given, Mapping):
            return validate(given)
        name = given.get("kind")
        if not isinstance(name, str):
            refuse([("kind", f"must be one of {', '.join(names(cls.group))}; choose one of them")])
        try:
            kind = load(cls.group, str(name), Configured).Settings
        except ExtensionError as error:
            refuse([("kind", str(error))])
            raise
        return validate(given) if kind is cls else kind.model_validate(given, context=info.context)

    @classmethod
    def _is_base(cls) -> bool:
        return KindSection in cls.__bases__

    @classmethod
    def of_any_kind(cls) -> type[BaseModel]:
        """Return a section with the fields of all installed kinds."""
        return _of_any_kind(cls) if cls._is_base() else cls

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        if cls._is_base():
            section = cls.of_any_kind()
            schema = section.__get_pydantic_json_schema__(section.__pydantic_core_schema__, handler)
            return handler.resolve_ref_schema(schema)
        return super().__get_pydantic_json_schema__(core_schema, handler)


class Configured:
    """Base class of what an entry point names: it has settings of its own."""

    Settings: ClassVar[type[KindSection]]


@cache
def _of_any_kind(base: type[KindSection]) -> type[BaseModel]:
    fields: dict[str, Any] = {}
    known = []
    for name in names(base.group):
        with suppress(ExtensionError):  # it is reported when the settings name it
            for field, info in load(base.group, name, Configured).Settings.model_fields.items():
                optional = FieldInfo.merge_field_infos(info, annotation=info.annotation | None, default=None)
                fields.setdefault(field, (optional.annotation, optional))
            known.append(name)
    kind = FieldInfo.merge_field_infos(base.model_fields["kind"], annotation=Literal[tuple(known)])
    return create_model(
        base.__name__, __base__=Section, __doc__=base.__doc__, **{**fields, "kind": (kind.annotation, kind)}
    )
