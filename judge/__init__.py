"""One answer in, one verdict out. Knows nothing of Kafka, Faust or Prometheus.

`from judge import Judge` is the library: `await Judge().score(event, "coverage")`; see `judge.library`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from judge.library import Judge

__all__ = ["Judge"]


def __getattr__(name: str) -> object:
    """Import the library when it is asked for, so that a pure module of this package costs nothing else."""
    if name == "Judge":
        from judge import library  # noqa: PLC0415 - see above

        return library.Judge
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
