"""What sections share: base classes, types with a meaning of their own, and secrets."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    ModelWrapValidatorHandler,
    SecretStr,
    SerializerFunctionWrapHandler,
    StringConstraints,
    ValidationInfo,
    create_model,
    model_serializer,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import CoreSchema, PydanticCustomError

from judge.errors import ExtensionError
from judge.extensions import Group, load, names
from streams.errors import SettingsError
from streams.settings.walk import section_of

PROBLEMS = "judgestream_problems"
"""Error type of checks over several fields; its context contains (path within the model, text) pairs."""
Problems = Iterator[tuple[str, str]]
"""Paths within a section, and what is wrong there."""
MAX_SECRET_BYTES: Final = 65_536
SOURCES: Final = {"env": "name of the environment variable", "file": "file, read again when it is used"}
NO_SOURCE: Final = "is required; set NAME_env or NAME_file"
"""NAME stands for the setting's name, which a secret does not know."""


class Section(BaseModel):
    """Base of all sections: frozen; an unknown name is an error."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        validate_default=True,
        hide_input_in_errors=True,
        use_attribute_docstrings=True,
        defer_build=True,
    )

    short_form: ClassVar[str | None] = None
    """The field that a value alone, in place of a mapping, means."""

    @model_validator(mode="before")
    @classmethod
    def _short_forms(cls, value: Any) -> Any:
        """Read a value alone as `short_form`, and `NAME_env` and `NAME_file` as the sources of a secret."""
        if cls.short_form is not None and isinstance(value, str | list | tuple):
            return {cls.short_form: value}
        if not isinstance(value, Mapping):
            return value
        nested = dict(value)
        for name in cls.secret_fields():
            given = {of: source for of in SOURCES if (source := nested.pop(f"{name}_{of}", None)) is not None}
            if given:
                literal = nested.get(name)
                nested[name] = given if literal is None else {"value": literal, **given}
        return nested

    @model_validator(mode="after")
    def _refuse_problems(self) -> Self:
        refuse(self._problems())
        return self

    def _problems(self) -> Problems:
        """Check several fields, which are valid alone."""
        return iter(())

    @model_serializer(mode="wrap")
    def _as_written(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Write a secret's source as in the file; the secret itself is masked by its type."""
        shown: dict[str, Any] = serialize(self)
        for name in self.secret_fields():
            for source, given in (shown.pop(name, None) or {}).items():
                if given is not None:
                    shown[name if source == "value" else f"{name}_{source}"] = given
        return shown

    @classmethod
    def secret_fields(cls) -> list[str]:
        return [name for name, field in cls.model_fields.items() if section_of(field.annotation) is Secret]

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Describe secrets as they are written in the file."""
        schema = handler(core_schema)
        node = handler.resolve_ref_schema(schema)
        properties: dict[str, Any] = {}
        secrets = cls.secret_fields()
        for name, described in node.get("properties", {}).items():
            if name not in secrets:
                properties[name] = described
                continue
            what = described.get("description", "The secret.").removesuffix(".")
            kinds = [{"type": "string"}, {"type": "null"}]
            for source, of in SOURCES.items():
                text = f"{what}: {of}."
                properties[f"{name}_{source}"] = {"anyOf": kinds, "default": None, "description": text}
            if name in node.get("required", ()):
                node["required"] = [one for one in node["required"] if one != name]
                node["anyOf"] = [{"required": [f"{name}_{source}"]} for source in SOURCES]
        node["properties"] = properties
        return schema


def written(name: str, value: object) -> str:
    """Return a setting's name as it was given: of a secret in the file that of its source."""
    if not isinstance(value, Secret) or value.value is not None:
        return name
    return f"{name}_{'env' if value.env else 'file'}"


def refuse(problems: Iterable[tuple[str, str]]) -> None:
    """Raise one validation error with several problems; do nothing if there are none."""
    if found := list(problems):
        text = "; ".join(f"{path}: {what}" if path else what for path, what in found)
        # The text is in the context: in the template, its braces would be placeholders.
        raise PydanticCustomError(PROBLEMS, "{text}", {"text": text, "problems": found})


def repeated(path: str, names: Sequence[str]) -> Problems:
    """Yield a problem for each name that occurs before in a list of sections."""
    for index, name in enumerate(names):
        if name in names[:index]:
            yield f"{path}.{index}.name", f"is used twice (got {name!r}); rename one"


def _against_base(path: Path, info: ValidationInfo) -> Path:
    base: Any = (info.context or {}).get("base") if isinstance(info.context, dict) else None
    return path if base is None else Path(base) / path


FilePath = Annotated[Path, AfterValidator(_against_base)]
"""A file; a relative path is relative to the folder of the settings file."""


class Secret(Section):
    """A secret, named in the file by `NAME_env` or `NAME_file`; a text in its place is refused."""

    env: Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] | None = None
    file: FilePath | None = None
    value: SkipJsonSchema[SecretStr | None] = None
    """Set by the loader alone, from a JUDGESTREAM_ variable."""

    @model_validator(mode="before")
    @classmethod
    def _no_literal(cls, given: Any) -> Any:
        if isinstance(given, SecretStr):
            return {"value": given}
        literal = given.get("value") if isinstance(given, Mapping) else given
        if literal is not None and not isinstance(literal, SecretStr | Secret):
            sources = "use NAME_env (an environment variable's name) or NAME_file"
            refuse([("", f"must not be in the file; {sources}, and replace this one: it has been exposed")])
        return given

    def _problems(self) -> Problems:
        names = {"value": "NAME", "env": "NAME_env", "file": "NAME_file"}
        given = [name for field, name in names.items() if getattr(self, field) is not None]
        if len(given) != 1:
            yield "", f"{' and '.join(given)} exclude each other; keep one" if given else NO_SOURCE

    def read(self, path: str, env: Mapping[str, str] | None = None) -> SecretStr:
        """Read it, without surrounding white space; `env`: by default the process's variables."""
        if self.value is not None:
            text, place = self.value.get_secret_value(), f"{path}: "
        elif self.env is not None:
            text = (os.environ if env is None else env).get(self.env, "")
            place = f"{path}_env: the environment variable {self.env} "
        else:
            text, place = _content(f"{path}_file", self.file or Path()), f"{path}_file: {self.file} "
        if not text.strip():
            raise SettingsError([f"{place}is not set or empty; put the secret there"])
        return SecretStr(text.strip())


def read_secret(secret: Secret | None, path: str, env: Mapping[str, str] | None = None) -> SecretStr | None:
    return None if secret is None else secret.read(path, env)


def _content(path: str, file: Path) -> str:
    try:
        with file.open("rb") as stream:
            raw = stream.read(MAX_SECRET_BYTES + 1)
        if len(raw) > MAX_SECRET_BYTES:
            why = f"is larger than {MAX_SECRET_BYTES} bytes; put only the secret in it"
            raise SettingsError([f"{path}: {file} {why}"])
        return raw.decode()
    except OSError as error:
        why = f"cannot be read ({error.strerror}); check path and permissions"
    except UnicodeDecodeError:
        why = "is not UTF-8 text; use a file that contains only the secret"
    raise SettingsError([f"{path}: {file} {why}"])


def _share(value: object) -> object:
    """Refuse a percentage and name the share it means."""
    text = value.strip() if isinstance(value, str) else ""
    try:
        percent = float(text.removesuffix("%")) if text.endswith("%") else value
    except ValueError:
        return value
    is_percent = text.endswith("%") or (isinstance(percent, int | float) and 1 < percent <= 100)
    if is_percent and isinstance(percent, int | float) and 0 <= percent <= 100:
        raise ValueError(f"must be a share from 0 to 1; for {percent:g}% write {percent / 100:.10g}")
    return value


Rate = Annotated[float, Field(ge=0, le=1), BeforeValidator(_share)]
"""A share, from 0 (none) to 1 (all)."""
Seconds = Annotated[float, Field(gt=0, le=86_400)]
Count = Annotated[int, Field(ge=1, le=1_000_000_000)]


class KindSection(Section):
    """Base of a group's sections (direct subclasses), whose `kind` names an entry point with its fields."""

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
