"""The worker's event loop, without its other interpreter settings."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


def run_plainly(main: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine on uvloop if installed."""
    try:
        import uvloop  # noqa: PLC0415 - an extra
    except ImportError:
        asyncio.run(main)
    else:
        uvloop.run(main)
