"""Base class and types shared by all sections of the settings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationInfo,
)
from pydantic_core import PydanticCustomError

from streams.settings.problems import PROBLEMS


class Section(BaseModel):
    """Base of all sections: frozen; an unknown name is an error."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, validate_default=True, hide_input_in_errors=True
    )


def refuse(problems: Sequence[tuple[str, str]]) -> None:
    """Raise one validation error with several problems; do nothing if there are none.

    Args:
        problems: Pairs of a dotted path within the section ("" for the section itself) and a message.
    """
    if problems:
        text = "; ".join(f"{path}: {what}" if path else what for path, what in problems)
        # The text is in the context: in the template, its braces would be placeholders.
        raise PydanticCustomError(PROBLEMS, "{text}", {"text": text, "problems": list(problems)})


def _against_base(path: Path, info: ValidationInfo) -> Path:
    base: Any = (info.context or {}).get("base") if isinstance(info.context, dict) else None
    return path if base is None else Path(base) / path


FilePath = Annotated[Path, AfterValidator(_against_base)]
"""A file; a relative path is relative to the folder of the settings file."""

EnvName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
"""Name of an environment variable (not its value)."""

Period = Literal["hour", "day"]
"""A period of the budget."""
PERIODS: Final[tuple[Period, ...]] = get_args(Period)


def _share(value: object) -> object:
    """Refuse a percentage and name the share it means; the field's bounds check other values."""
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
