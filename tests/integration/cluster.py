"""A cluster of three Apache Kafka nodes, each broker and controller, with replication factor 3."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from tests.integration.kafka import ApacheKafka, KafkaUnavailableError, free_ports, new_cluster_id

NODES: Final = 3
COPIES: Final = 3
_PORTS: Final = 4
_PROPERTIES: Final = """
node.id={node_id}
controller.quorum.voters={voters}
default.replication.factor=3
min.insync.replicas=2
offsets.topic.replication.factor=3
transaction.state.log.replication.factor=3
transaction.state.log.min.isr=2
# Replace an unavailable leader and drop a slow follower quickly.
replica.lag.time.max.ms=2000
replica.fetch.wait.max.ms=250
controller.quorum.election.timeout.ms=500
controller.quorum.fetch.timeout.ms=1000
"""


class KafkaCluster:
    def __init__(self, directory: Path) -> None:
        ports = free_ports(NODES * _PORTS)
        mine = [ports[number * _PORTS : (number + 1) * _PORTS] for number in range(NODES)]
        voters = ",".join(f"{number + 1}@127.0.0.1:{own[3]}" for number, own in enumerate(mine))
        cluster_id = new_cluster_id()
        self.nodes: list[ApacheKafka] = []
        for number, own in enumerate(mine):
            folder = directory / f"node-{number + 1}"
            folder.mkdir()
            lines = _PROPERTIES.format(node_id=number + 1, voters=voters)
            self.nodes.append(ApacheKafka(folder, properties=lines, ports=own, cluster_id=cluster_id))

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(node.bootstrap_servers for node in self.nodes)

    def start(self) -> None:
        try:
            with ThreadPoolExecutor(NODES) as pool:
                # A node answers only when a majority runs.
                list(pool.map(lambda node: node.start(), self.nodes))
        except KafkaUnavailableError:
            self.stop()
            raise

    def stop(self) -> None:
        for node in self.nodes:
            node.resume()
            node.kill()
