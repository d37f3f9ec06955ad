"""The event loop that the worker has, for a plain program: none of the worker's other settings of the interpreter."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


def run_plainly(main: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine on uvloop where it is there."""
    try:
        import uvloop  # noqa: PLC0415 - an extra
    except ImportError:
        asyncio.run(main)
    else:
        uvloop.run(main)
