"""Records of aborted transactions are not read."""

from __future__ import annotations

import ast
from pathlib import Path

from streams.kafka import patches

STREAMS = Path(patches.__file__).parents[2]


def test_every_consumer_reads_committed_records_only() -> None:
    """Each AIOKafkaConsumer in the code is made with an isolation level."""
    made = {
        f"{file.relative_to(STREAMS)}": {keyword.arg for keyword in node.keywords}
        for file in STREAMS.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "AIOKafkaConsumer"
    }
    assert made
    assert [place for place, arguments in made.items() if "isolation_level" not in arguments] == []
