"""Question and answer of results, from the tasks' topics: results carry no texts."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection
from typing import Any, Final

from pydantic import ValidationError

from judge.text.printable import printable
from schemas import JudgeTask
from streams.kafka.past import partitions_of

EARLIER_MS: Final = 600_000
"""How much earlier than its result a task is looked for."""
REMEMBERED: Final = 20_000
POLL_MS: Final = 300
TEXT_CHARS: Final = 160


class TaskTexts:
    """Finds the texts of results, while the tasks' topics are read beside.

    Args:
        consumer: A started consumer without a group, for the tasks alone.
    """

    def __init__(self, consumer: Any) -> None:
        self._consumer = consumer
        self._lines: OrderedDict[str, str] = OrderedDict()

    async def begin(self, topics: Collection[str], since: int) -> None:
        """Begin with the tasks some time before `since`, in milliseconds since 1970."""
        partitions = [one for topic in topics for one in await partitions_of(self._consumer, topic)]
        self._consumer.assign(partitions)
        found = await self._consumer.offsets_for_times(dict.fromkeys(partitions, max(since - EARLIER_MS, 0)))
        for partition in partitions:
            if found[partition] is None:
                await self._consumer.seek_to_end(partition)
            else:
                self._consumer.seek(partition, found[partition].offset)

    async def lines(self, result_id: str) -> str:
        """Return question and answer, a line each; reads on until the task is found or the topics end."""
        while result_id not in self._lines and self._consumer.assignment():
            found = await self._consumer.getmany(timeout_ms=POLL_MS)
            if not found:
                break
            for record in (one for records in found.values() for one in records):
                self._add(record.value or b"")
        return self._lines.get(result_id, "    text not kept")

    def _add(self, value: bytes) -> None:
        try:
            task = JudgeTask.model_validate_json(value)
        except ValidationError:
            return
        question, answer = (printable(text, TEXT_CHARS) for text in (task.question, task.answer))
        self._lines[task.result_id] = f"    Q: {question}\n    A: {answer}"
        if len(self._lines) > REMEMBERED:
            self._lines.popitem(last=False)
