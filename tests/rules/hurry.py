"""Rules with shorter durations, so that a test with a real Prometheus can watch hours."""

from __future__ import annotations

import re

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_DURATION = r"(?:\d+[smhdw])+"
# Only durations; windows in the names of recorded series stay.
_PLACES = re.compile(
    rf"(?P<before>\[|:(?=\d+[smhdw]\])|offset |(?:\w*interval|for|keep_firing_for|eval_time): )(?P<time>{_DURATION})"  # noqa: E501
)


def seconds_of(duration: str) -> int:
    """Return a Prometheus duration in seconds."""
    return sum(int(count) * _UNITS[unit] for count, unit in re.findall(r"(\d+)([smhdw])", duration))


def hurried(text: str, factor: int) -> str:
    """Divide every duration in YAML of rules or promtool tests; each must then be whole milliseconds."""

    def shorter(match: re.Match[str]) -> str:
        milliseconds, rest = divmod(1000 * seconds_of(match["time"]), factor)
        if rest:
            raise ValueError(
                f"factor must divide every duration, got {factor} for {match['time']}; choose another"
            )
        shown = f"{milliseconds // 1000}s" if milliseconds % 1000 == 0 else f"{milliseconds}ms"
        return f"{match['before']}{shown}"

    return _PLACES.sub(shorter, text)
