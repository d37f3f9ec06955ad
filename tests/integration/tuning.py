"""Constants that tests shorten, in this process or in a worker's: waits of minutes become seconds."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pkgutil import resolve_name
from typing import Any, Final
from unittest import mock

VARIABLE: Final = "TUNED_CONSTANTS"
PATIENCE: Final = "streams.judging.endpoints.PATIENCE"
GRACE: Final = "streams.intake.reading.otlp.reader.GRACE_SECONDS"
CLOSING: Final = "streams.intake.joining.intakes.LONGEST_SLEEP_SECONDS"


def tuned(values: Mapping[str, Any]) -> ExitStack:
    """Replace constants, named by module and name, until the stack is closed; of a dataclass, its fields."""
    stack = ExitStack()
    for place, given in values.items():
        known = resolve_name(place)
        stack.enter_context(mock.patch(place, replace(known, **given) if isinstance(given, dict) else given))
    return stack


def environment(values: Mapping[str, Any]) -> dict[str, str]:
    return {VARIABLE: json.dumps(values)}


def tune_process() -> None:
    tuned(json.loads(os.environ.get(VARIABLE, "{}")))
