"""A faust-streaming process reads from and writes to both brokers."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING

from aiokafka import AIOKafkaConsumer

from tests.integration.deadlines import take

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.integration.conftest import RunningBroker

_RECORDS = 500
_STOP_SECONDS = 60

_APP = """
import os
import faust

app = faust.App(
    os.environ["GROUP"],
    broker="kafka://" + os.environ["BOOTSTRAP_SERVERS"],
    store="memory://",
    web_enabled=False,
    topic_partitions=2,
)
source = app.topic(os.environ["SOURCE"], key_type=bytes, value_type=bytes, key_serializer="raw", value_serializer="raw")
target = app.topic(os.environ["TARGET"], key_type=bytes, value_type=bytes, key_serializer="raw", value_serializer="raw")

counts = app.Table("counts", default=int)  # makes Faust create a changelog and read it at start

@app.agent(source)
async def copy(stream):
    async for event in stream.events():
        counts["all"] += 1
        await target.send(key=event.key, value=event.value.upper())

app.main()
"""  # noqa: E501


async def test_a_faust_app_works_against_the_broker(
    broker: RunningBroker, topic_name: Callable[[str], str], tmp_path: Path
) -> None:
    source, target, group = topic_name("source"), topic_name("target"), topic_name("app")
    broker.create_topic(source, 2)
    broker.create_topic(target, 2)
    async with broker.producer() as producer:
        for number in range(_RECORDS):
            await producer.send(source, b"value %d" % number, key=b"%d" % number)
    program = tmp_path / "app.py"
    program.write_text(_APP)
    log = tmp_path / "log"
    with log.open("wb") as output:
        app = await asyncio.create_subprocess_exec(
            sys.executable,
            str(program),
            "worker",
            "--without-web",
            stdout=output,
            stderr=output,
            cwd=tmp_path,
            env={
                **os.environ,
                "BOOTSTRAP_SERVERS": broker.bootstrap_servers,
                "SOURCE": source,
                "TARGET": target,
                "GROUP": group,
            },
        )
    try:
        async with AIOKafkaConsumer(
            target, bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest"
        ) as consumer:
            records = await take(consumer, _RECORDS)
    except AssertionError as error:
        raise AssertionError(f"{error}; the app said:\n{log.read_text()[-4000:]}") from error
    finally:
        app.terminate()
        try:
            await asyncio.wait_for(app.wait(), _STOP_SECONDS)
        except TimeoutError:
            app.kill()
            await app.wait()
    assert sorted(record.value for record in records) == sorted(
        b"VALUE %d" % number for number in range(_RECORDS)
    )
