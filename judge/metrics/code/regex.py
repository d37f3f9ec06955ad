"""Search for a pattern in linear time, because pattern and text are untrusted."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import re2

from judge.errors import JudgeConfigurationError
from judge.metric import Outcome
from judge.metrics.code.checks import OneText, Read
from judge.metrics.code.scale import Scale, yes_or_no
from judge.text.normal import without_lone_surrogates

MAX_PATTERN_CHARS: Final = 1_000
_PATTERN_MEMORY_BYTES: Final = 1 << 23


@dataclass(frozen=True)
class Regex(OneText):
    """Whether a pattern is found; matched by RE2 in linear time.

    Args:
        pattern: In RE2's syntax: no look-around and no back-references.
        of: The text to search.
        good: Whether a match is good.

    Raises:
        JudgeConfigurationError: RE2 rejects the pattern.
    """

    pattern: str
    of: Read = "answer"
    good: bool = True

    def __post_init__(self) -> None:
        if len(self.pattern) > MAX_PATTERN_CHARS:
            raise JudgeConfigurationError(
                f"pattern must be at most {MAX_PATTERN_CHARS} characters, got {len(self.pattern)}; shorten it"
            )
        _compiled(self.pattern)

    @property
    def scale(self) -> Scale:
        """True if it is found."""
        return yes_or_no(good=self.good)

    def look(self, text: str) -> Outcome:
        """Return whether the pattern is found."""
        # RE2 rejects lone surrogates; replaced one for one, so that offsets stay.
        found = _compiled(self.pattern).search(without_lone_surrogates(text))
        evidence = None if found is None else {"start": found.start(), "end": found.end()}
        reason = f"the {self.of} does not match" if found is None else f"the {self.of} matches"
        return self.scale.outcome(found is not None, reason=reason, evidence=evidence)


@lru_cache(maxsize=64)
def _compiled(pattern: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _PATTERN_MEMORY_BYTES
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        said = error.args[0] if error.args else error
        said = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
        raise JudgeConfigurationError(
            f"pattern must be a regular expression of RE2, without look-around and back-references: {said}; "
            "correct it"
        ) from error
