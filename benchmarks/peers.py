"""The environment of peers: compared libraries that are no dependencies."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import venv
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[1]
_REQUIREMENTS = _ROOT / "requirements" / "bench-peers.txt"
_ENVIRONMENTS = _ROOT / ".cache" / "bench"
_INSTALL_SECONDS = 300.0


class PeersUnavailableError(Exception):
    """The peers cannot be installed here; the message says why."""


def peers_python() -> str:
    """Return the interpreter of an environment with the pinned peers, created by pip on first use.

    Raises:
        PeersUnavailableError: pip cannot install them.
    """
    # One environment per set of pins.
    place = _ENVIRONMENTS / hashlib.sha256(_REQUIREMENTS.read_bytes()).hexdigest()[:12]
    python, finished = place / "bin" / "python", place / "finished"
    if finished.is_file():
        return str(python)
    print("installing the peers (once) ...", file=sys.stderr)
    venv.create(place, clear=True, with_pip=True)
    try:
        subprocess.run(
            [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", _REQUIREMENTS],
            check=True,
            capture_output=True,
            text=True,
            timeout=_INSTALL_SECONDS,
        )
    except subprocess.CalledProcessError as error:
        last = error.stderr.strip().splitlines()[-1:] or ["no message"]
        raise PeersUnavailableError(f"pip cannot install them: {last[0]}") from error
    except subprocess.TimeoutExpired as error:
        raise PeersUnavailableError(f"pip was not done after {_INSTALL_SECONDS:.0f} s") from error
    finished.touch()
    return str(python)
