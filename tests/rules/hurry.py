"""Rules with a shorter clock: what takes hours in production can be watched in a test
with a real Prometheus.
"""

from __future__ import annotations

import re

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_DURATION = r"(?:\d+[smhdw])+"
# Only where a duration stands for time; the windows in the names of recorded series stay as they are.
_PLACES = re.compile(
    rf"(?P<before>\[|:(?=\d+[smhdw]\])|offset |(?:\w*interval|for|keep_firing_for|eval_time): )(?P<time>{_DURATION})"  # noqa: E501
)


def hurried(text: str, factor: int) -> str:
    """Divide every duration in rules or in their tests.

    Args:
        text: YAML of rules, alerts or promtool tests.
        factor: By how much; every duration must be whole milliseconds after it. 60 makes an hour a minute.

    Raises:
        ValueError: A duration would not be whole milliseconds.
    """

    def shorter(match: re.Match[str]) -> str:
        parts = re.findall(r"(\d+)([smhdw])", match["time"])
        milliseconds, rest = divmod(1000 * sum(int(count) * _UNITS[unit] for count, unit in parts), factor)
        if rest:
            raise ValueError(
                f"factor must divide every duration, got {factor} for {match['time']}; choose another"
            )
        shown = f"{milliseconds // 1000}s" if milliseconds % 1000 == 0 else f"{milliseconds}ms"
        return f"{match['before']}{shown}"

    return _PLACES.sub(shorter, text)
