"""Judge an answer from your own program: `python examples/library.py`."""

from __future__ import annotations

import asyncio

from judge import Failed, Judge, Scored, Unscored

EVENT = {
    "question": "Where is the Eiffel Tower, and since when?",
    "answer": "The Eiffel Tower was completed in Paris in 1889.",
    "reference": "The Eiffel Tower is in Paris. It was completed in 1889.",
}


def told(result: Scored | Unscored | Failed) -> str:
    """Format a result, which has one of three statuses."""
    match result:
        case Scored():
            return f"scored {result.score} {result.verdict['rationale']}"
        case Unscored():
            return f"unscored: {result.reason}"
        case Failed():
            return f"failed: {result.error_type}: {result.detail}"


async def main() -> None:
    async with Judge() as judge:
        print(told(await judge.score(EVENT, "coverage")))
        async for result in judge.score_many([EVENT, {**EVENT, "answer": "In Rome."}], "coverage"):
            print(told(result))


if __name__ == "__main__":
    asyncio.run(main())
