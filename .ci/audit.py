#!/usr/bin/env python3
"""Asks about known vulnerabilities of what is pinned: `audit.py PIP_AUDIT REQUIREMENTS...`.

Needs pip-audit alone.

pip-audit says "No known vulnerabilities found" and ends well also where its service knew nothing of any
package. This ends with 0 only where the service has answered for every package of every file and knew of
nothing; with 1 where it knows of something; with 3 where packages are left about which it said nothing.
"""
# ruff: noqa: T201 - a script, which prints

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence

VULNERABLE, UNANSWERED = 1, 3


def main(arguments: Sequence[str]) -> int:
    """Audit each file; give the exit code."""
    pip_audit, *files = arguments
    return max(audit(pip_audit, file) for file in files)


def audit(pip_audit: str, file: str) -> int:
    """Audit one file of pinned requirements; give its exit code."""
    asked = [pip_audit, "--disable-pip", "--require-hashes", "--requirement", file]
    done = subprocess.run(  # noqa: S603 - the program that the caller names
        [*asked, "--format", "json", "--progress-spinner", "off"], capture_output=True, text=True, check=False
    )
    try:
        packages = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError):
        print(f"{file}: not audited: {_last_line(done.stderr)}", file=sys.stderr)
        return UNANSWERED
    unanswered = [package for package in packages if "vulns" not in package]
    vulnerable = [package for package in packages if package.get("vulns")]
    for package in vulnerable:
        for found in package["vulns"]:
            mended = ", ".join(found["fix_versions"]) or "no version yet"
            print(f"{file}: {package['name']} {package['version']}: {found['id']}, mended in {mended}")
    if unanswered or not packages:
        names = ", ".join(package["name"] for package in unanswered[:5])
        print(
            f"{file}: not audited: the vulnerability service said nothing about {len(unanswered)} of "
            f"{len(packages)} "
            f"packages ({names}, ...); is its address reachable from here?",
            file=sys.stderr,
        )
    else:
        print(f"{file}: {len(packages)} packages, {len(vulnerable)} with known vulnerabilities")
    if vulnerable:
        return VULNERABLE
    return UNANSWERED if unanswered or not packages else 0


def _last_line(text: str) -> str:
    return text.strip().rpartition("\n")[2] or "pip-audit said nothing"


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
