"""Where an error arose, without its words: those of a foreign text's error quote the text."""

from __future__ import annotations

import traceback
from pathlib import PurePath

MAX_FRAMES = 12


def surprise(error: BaseException) -> str:
    """Say of an unexpected error what it is and where it arose, without its words."""
    return f"internal error: {type(error).__name__} at {(where(error) or ['an unknown place'])[-1]}"


def where(error: BaseException) -> list[str]:
    """The innermost places of an error's traceback as "file:line function", the last one where it arose."""
    frames = traceback.extract_tb(error.__traceback__)[-MAX_FRAMES:]
    return [
        f"{'/'.join(PurePath(frame.filename).parts[-3:])}:{frame.lineno} {frame.name}" for frame in frames
    ]
