from __future__ import annotations

import re
import sys

from packaging.markers import Marker
from packaging.utils import canonicalize_name

from tests.places import ROOT

_RUNTIME = ROOT / "requirements" / "runtime.txt"


def pinned(python: tuple[int, int] = sys.version_info[:2]) -> dict[str, str]:
    target = {
        "sys_platform": "linux",
        "python_version": f"{python[0]}.{python[1]}",
        "python_full_version": f"{python[0]}.{python[1]}.0",
    }
    found: dict[str, str] = {}
    for line in _RUNTIME.read_text(encoding="utf-8").splitlines():
        if parts := re.match(r"([\w.-]+)(?:\[.+?\])?==([\w.!+]+)(?: ; (.+?))? \\$", line):
            name, number, marker = parts.groups()
            if marker is None or Marker(marker).evaluate(target):
                found[canonicalize_name(name)] = number
    assert len(found) > 50, f"{_RUNTIME} is not read any more; look at its form"
    return found
