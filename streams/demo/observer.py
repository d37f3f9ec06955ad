"""Reads all topics independently of the worker and updates accounts and board."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from pydantic import ValidationError

from schemas import RESULT, Alert, DeadLetter, JudgeTask
from streams.demo.accounting import Accounts
from streams.demo.board import Board
from streams.demo.feed import POSITION_HEADER
from streams.kafka.topics.flow import message_of
from streams.settings import TopicSettings

_log = logging.getLogger(__name__)


class Observer:
    """Adds the records of all topics to accounts and board.

    Args:
        topics: Names of topics.
        accounts: The exact counts.
        board: The numbers of the view.
        seconds: Returns the seconds since the start.
    """

    def __init__(
        self, topics: TopicSettings, accounts: Accounts, board: Board, seconds: Callable[[], float]
    ) -> None:
        self._topics = topics
        self._accounts = accounts
        self._board = board
        self._seconds = seconds

    async def run(self, consumer: Any) -> None:
        """Read until cancelled.

        Args:
            consumer: A started aiokafka consumer that is subscribed to all the demo's topics.
        """
        async for record in consumer:
            self.take(record)

    def take(self, record: Any) -> None:
        """Add one record."""
        try:
            match message_of(self._topics, record.topic):
                case "qa_event":
                    position = int(dict(record.headers).get(POSITION_HEADER, b"0"))
                    self._accounts.add_event(record.partition, record.offset, position)
                case "result":
                    self._board.add_result(RESULT.validate_json(record.value), self._seconds())
                case "dead_letter":
                    self._accounts.add_dead_letter(DeadLetter.model_validate_json(record.value))
                case "alert":
                    self._accounts.add_alert(Alert.model_validate_json(record.value))
                case "judge_task":
                    self._accounts.add_task(JudgeTask.model_validate_json(record.value))
        except ValidationError:
            # An unreadable record is not counted, so the accounting identity fails and shows the fault.
            _log.exception("%s %s@%s has an unknown format", record.topic, record.partition, record.offset)
