"""How often an incident names the right cause, in 200 simulated drops of each kind.

The drops are those of the tests: one model of five, a model and an app together, only the mix, all of the
traffic, a new version of the prompt.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random
from typing import Final

from benchmarks.report import Line
from tests.streams.store.views.incidents.test_causes import DROPS, find, found_in

RUNS: Final = 200
AIM: Final = 0.95


def run() -> Iterator[dict[str, object]]:
    """Measure; yields one record per number."""
    for drop in DROPS:
        right = within = 0
        for seed in range(RUNS):
            before, after, expected = drop(Random(seed))  # noqa: S311 - repeatable noise
            found = found_in(find(before, after))
            right += found == expected
            within += any(kind != "mix" for kind, _, _ in found)
        name = drop.__name__.replace("_", " ")
        yield Line(
            f"causes named exactly: {name}",
            right / RUNS,
            "share",
            aim=f"at least {AIM}",
            met=right >= AIM * RUNS,
        ).as_json()
        if name == "mix alone":
            yield Line(
                "causes: mix alone called anything else", within, "runs", aim="none", met=within == 0
            ).as_json()


if __name__ == "__main__":
    for line in run():
        print(json.dumps(line))
