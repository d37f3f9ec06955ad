"""Consumer and producer as the transport that Faust requires."""

from __future__ import annotations

from typing import Any

from faust.transport.drivers import aiokafka as driver

from streams.kafka.transport.consumer import Consumer
from streams.kafka.transport.plan import Plan
from streams.kafka.transport.producer import Producer


class Transport(driver.Transport):
    """Faust's Kafka transport; set `app.transport = Transport(urls, app, plan=plan)`."""

    Consumer = Consumer
    Producer = Producer

    def __init__(self, *args: Any, plan: Plan, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.plan = plan
