"""The service: Kafka in, Kafka out. Importing this package starts nothing."""

from importlib.util import find_spec
from pathlib import Path

# As in `judge`, which cannot be asked: it may be another one.
_found = find_spec("judge")
_here = Path(__file__).parent.parent
if _found is None or _found.origin is None or Path(_found.origin).parent.parent != _here:
    raise ImportError(
        f"judgestream's package `judge` is in {_here}, but Python found {_found and _found.origin} first: "
        "rename that one, or start the program from another folder"
    )
