"""Differences of the baseline mean between the parts of the traffic. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

MOST_PARTS = 50
"""Maximum parts with their own mean; others get the mean of the whole."""

_PRIOR_COUNT = 30.0
"""Effective answers at which a part's own mean has weight 1/2."""

_KNOWN_COUNT = 60
"""Samples of the whole after which a part seen for the first time is new."""
_PROBATION = 4
"""A new part is known once the whole has grown by this factor."""


class Mix:
    """Learns the offset of each part's mean from that of the whole.

    With these offsets a test of the whole asks whether answers got worse *within* the parts: a change of the
    mix alone (more traffic of an app that was always weaker) is not a fall. This is post-stratification by
    the mix of the baseline, answer by answer. A part's offset is shrunk to 0 by n / (n + 30), n its effective
    sample size.

    The offset of a part that appears later, such as a new model, is at least 0 until the whole has four times
    the samples it had then. Otherwise a bad release would be learned as a part that was always weaker.

    Args:
        parts: Earlier `parts`.
        offsets: Earlier `offsets`.
    """

    def __init__(
        self,
        parts: Iterable[tuple[str, float, float, float, float]] = (),
        offsets: Mapping[str, float] | None = None,
    ) -> None:
        self._parts = {name: [w, wy, ww, since] for name, w, wy, ww, since in parts}
        self._offsets = dict(offsets or {})

    @property
    def offsets(self) -> Mapping[str, float]:
        """The offset of each part as of the last `refit`."""
        return self._offsets

    @property
    def parts(self) -> tuple[tuple[str, float, float, float, float], ...]:
        """For each part: name, sums of w, wy and w², and samples of the whole when it was first seen."""
        return tuple((name, w, wy, ww, since) for name, (w, wy, ww, since) in self._parts.items())

    def offset(self, part: str) -> float:
        """Return a part's offset; 0 for an unknown part."""
        return self._offsets.get(part, 0.0)

    def add(self, part: str, value: float, weight: float, *, count: int) -> None:
        """Add one sample; offsets change at the next `refit`.

        Args:
            value: In [0, 1].
            weight: The inverse of its inclusion probability.
            count: Samples of the whole so far.
        """
        sums = self._parts.get(part)
        if sums is None:
            if len(self._parts) >= MOST_PARTS:
                return
            sums = self._parts[part] = [0.0, 0.0, 0.0, float(count)]
        sums[0] += weight
        sums[1] += weight * value
        sums[2] += weight * weight

    def refit(self, count: int) -> None:
        """Recompute the offsets from all `count` samples so far."""
        total = sum(sums[0] for sums in self._parts.values())
        self._offsets = {}
        if total <= 0 or len(self._parts) < 2:
            return
        mean = sum(sums[1] for sums in self._parts.values()) / total
        for name, (w, wy, ww, since) in self._parts.items():
            effective = w * w / ww
            offset = (wy / w - mean) * effective / (effective + _PRIOR_COUNT)
            is_new = since > _KNOWN_COUNT and count < _PROBATION * since
            self._offsets[name] = max(offset, 0.0) if is_new else offset
        # Centre the offsets: shrinking moves their weighted mean away from 0.
        centre = sum(self._parts[name][0] * offset for name, offset in self._offsets.items()) / total
        self._offsets = {name: offset - centre for name, offset in self._offsets.items()}
