"""Reads a dashboard into Grafana's model and back, and prints what was lost.

Runs in the Python with the SDK.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def differences(given: Any, returned: Any, place: str = "") -> Iterator[str]:
    """The parts of a document that another lacks; added defaults do not count."""
    if isinstance(given, dict) and isinstance(returned, dict):
        for key, value in given.items():
            if key not in returned:
                yield f"{place}.{key} is lost"
            else:
                yield from differences(value, returned[key], f"{place}.{key}")
    elif isinstance(given, list) and isinstance(returned, list) and len(given) == len(returned):
        for index, (one, other) in enumerate(zip(given, returned, strict=True)):
            yield from differences(one, other, f"{place}[{index}]")
    elif given != returned:
        yield f"{place}: {given!r} becomes {returned!r}"


def main(path: str) -> int:
    # The SDK has its own environment, so the project does not depend on it.
    from grafana_foundation_sdk.cog import encoder, plugins  # type: ignore[import-not-found]
    from grafana_foundation_sdk.models import dashboard  # type: ignore[import-not-found]

    plugins.register_default_plugins()
    given = json.loads(Path(path).read_text(encoding="utf-8"))
    returned = json.loads(encoder.JSONEncoder().encode(dashboard.Dashboard.from_json(given)))
    found = list(differences(given, returned))
    sys.stdout.writelines(f"{line}\n" for line in found)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
