"""The private names of aiokafka, Faust, mode and ssl that the project uses exist in these versions."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

from streams.kafka import patches

STREAMS = Path(patches.__file__).parents[1]
NEEDED = {
    "_ssl": {"_test_decode_cert"},
    "aiokafka.client": {"create_conn"},
    "aiokafka.client.AIOKafkaClient": {"fetch_all_metadata", "force_metadata_update"},
    "aiokafka.conn": {"READER_LIMIT"},
    "aiokafka.conn.AIOKafkaConnection": {
        "_create_reader_task", "_reader", "_requests", "_send_sasl_token", "_writer",
    },
    "aiokafka.admin.AIOKafkaAdminClient": {"_client"},
    "aiokafka.consumer.consumer.AIOKafkaConsumer": {"_client", "_coordinator", "_fetcher"},
    "aiokafka.consumer.fetcher": {"MemoryRecords", "READ_COMMITTED", "PartitionRecords"},
    "aiokafka.consumer.fetcher.Fetcher": {"close"},
    "aiokafka.consumer.fetcher.PartitionRecords": {
        "_aborted_producers", "_aborted_transactions", "_check_crcs", "_consume_aborted_up_to",
        "_consumer_record", "_contains_abort_marker", "_isolation_level", "_key_deserializer", "_records",
        "_records_iterator", "_tp", "_unpack_records", "next_fetch_offset",
    },
    "aiokafka.consumer.group_coordinator.GroupCoordinator": {"_send_req"},
    "aiokafka.record.default_records": {"DefaultRecordBatch", "gzip_decode", "zstd_decode"},
    "aiokafka.record._crecords.default_records": {
        "gzip_decode", "lz4_decode", "snappy_decode", "zstd_decode",
    },
    "faust.App": {"_consumer", "_crash", "_crashed", "_create_directories", "crash"},
    "faust.streams": {"_CStreamIterator"},
    "faust.transport.drivers.aiokafka.AIOKafkaConsumerThread": {
        "_consumer", "_create_worker_consumer", "_ensure_consumer", "close", "on_thread_stop",
    },
    "faust.transport.drivers.aiokafka.Consumer": {"_new_consumer_thread", "_thread"},
    "faust.transport.drivers.aiokafka.Producer": {
        "_ensure_producer", "_new_producer", "_settings_auth", "_settings_extra",
    },
    "mode.threads.ServiceThread": {"_gather_remaining_tasks", "_thread"},
}  # fmt: skip


@pytest.mark.parametrize(("owner", "names"), sorted(NEEDED.items()), ids=sorted(NEEDED))
def test_the_name_is_there(owner: str, names: set[str]) -> None:
    found = _find(owner)
    code = "\n".join(inspect.getsource(one) for one in found.__mro__[:-1]) if inspect.isclass(found) else ""
    gone = [name for name in sorted(names) if not hasattr(found, name) and f"self.{name}" not in code]
    assert not gone, f"{owner} lacks {gone}: check their use in streams.kafka"


def _find(path: str) -> object:
    module, _, name = path.rpartition(".")
    if name[:1].isupper():
        return getattr(importlib.import_module(module), name)
    return importlib.import_module(path)


def test_every_private_name_is_in_the_list() -> None:
    used = set()
    for file in STREAMS.rglob("*.py"):
        for line in file.read_text().splitlines():
            if "noqa: SLF001" in line:
                used |= set(re.findall(r"\.(_[a-z]\w*)", line.split("#")[0]))
    assert used - set().union(*NEEDED.values()) == set()


def test_nothing_is_patched_at_import() -> None:
    program = """
import aiokafka.client, aiokafka.conn, aiokafka.consumer.fetcher as fetcher
import aiokafka.record.default_records as records
looks = lambda: (
    aiokafka.client.create_conn, aiokafka.conn.READER_LIMIT, fetcher.MemoryRecords, fetcher.PartitionRecords,
    records.zstd_decode,
)
before = looks()
import streams.worker.run, streams.kafka.topics.admin, streams.cli.main
assert looks() == before
from streams.kafka.access.access import client_options
from streams.settings.broker import KafkaSettings
client_options(KafkaSettings())
assert all(one is not other for one, other in zip(looks(), before))
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_every_consumer_reads_committed_records_only() -> None:
    made = {
        f"{file.relative_to(STREAMS)}": {keyword.arg for keyword in node.keywords}
        for file in STREAMS.rglob("*.py")
        if "AIOKafkaConsumer(" in (text := file.read_text(encoding="utf-8"))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "AIOKafkaConsumer"
    }
    assert made
    assert [place for place, arguments in made.items() if "isolation_level" not in arguments] == []
