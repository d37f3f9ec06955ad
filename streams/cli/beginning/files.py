"""Builds the texts of the files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from judge.endpoints.addresses import is_loopback
from streams.cli.beginning.answers import HOST_PORT, OFFLINE_PORT, Answers

SETTINGS: Final = "settings.yaml"
COMPOSE: Final = "compose.yaml"
EVENTS: Final = "events.jsonl"
KAFKA_IMAGE: Final = "apache/kafka:4.1.1"
CALLS_A_DAY: Final = 1000
"""The budget if no price is known: costs in dollars cannot be counted."""
_WHAT: Final = {
    "coverage": "does the answer contain the facts of the known good answer? 0 to 5",
    "relevance": "does the cited page support every claim? 1 to 5",
    "answer_relevance": "does it answer the question? 1 to 5",
}


def files(answers: Answers, *, is_priced: bool, version: str) -> dict[str, str]:
    """Write the files.

    Args:
        answers: The answers to the questions.
        is_priced: Whether the price of the judge's tokens is known, so that a budget in dollars can be kept.
        version: The version of judgestream, for the image in the compose file.
    """
    return {
        SETTINGS: _settings(answers, is_priced=is_priced),
        COMPOSE: _compose(answers, version),
        EVENTS: json.dumps(_event(answers)) + "\n",
    }


def _settings(answers: Answers, *, is_priced: bool) -> str:
    metrics = "".join(
        f"  {name}: {{when: {{has: [{field}]}}}} # {_WHAT[name]}\n" for name, field in answers.metrics.items()
    )
    if answers.is_new_kafka:
        where, start = "the broker of compose.yaml, from this machine", "earliest"
        begins = "the topic is new: no backlog to judge and pay for"
        create = "true # creates missing topics"
    else:
        where, start = "your cluster; security: {protocol: SASL_SSL, ...} for a login", "latest"
        begins = "start with new events; earliest judges the whole backlog"
        create = "false # judgestream topics --config settings.yaml creates missing topics"
    key = "" if answers.is_free else ", api_key_env: OPENAI_API_KEY"
    url, model = json.dumps(answers.base_url), json.dumps(answers.model)
    return f"""\
# Settings of judgestream. Check them: judgestream config check {SETTINGS}
# Test everything a worker needs: judgestream doctor --config {SETTINGS}
# Override any with JUDGESTREAM_<SECTION>__<FIELD>; docs/settings.md lists all.

kafka:
  bootstrap_servers: {json.dumps(answers.bootstrap_servers)} # {where}
  group_id: judgestream
  start: {start} # {begins}

topics:
  events: {json.dumps(answers.topic)} # results go to qa.scores, alerts to qa.alerts
  create: {create}

# For events of another shape map them with JMESPath to the fields of {EVENTS}; judgestream map shows ten.
# ingest:
#   mapping: {{event_id: request.id, question: request.text, answer: response.text}}

sampling:
  default_rate: {answers.sampled:g} # the share of answers to judge; means are weighted by it
  # rules: [{{name: gold, when: {{tenant: gold}}, rate: 1.0}}]

metrics:
{metrics}
judge:
  endpoints: [{{name: primary, base_url: {url}, model: {model}{key}}}]
  budget: {_budget(answers, is_priced=is_priced)}

telemetry: {{host: 127.0.0.1, port: 8080}} # a live page, /metrics, /healthz and /readyz
"""


def _budget(answers: Answers, *, is_priced: bool) -> str:
    if answers.is_free:
        return "none # a judge on this machine costs nothing per token"
    if is_priced:
        return f"{{usd_per_day: {answers.usd_per_day:g}}} # per worker; once spent, answers wait in Kafka"
    return f"{{calls_per_day: {CALLS_A_DAY}}} # per worker; without a known price dollars cannot be counted"


def _event(answers: Answers) -> Mapping[str, Any]:
    event: dict[str, Any] = {
        "event_id": "1",
        "question": "How long does the lamp's battery last?",
        "answer": "The battery lasts 12 hours. Evidence: [Page 2]",
    }
    needed = set(answers.metrics.values())
    if "reference" in needed:
        event["reference"] = "The lamp's battery lasts 12 hours."
    if "context" in needed:
        event["context"] = {"Page-1": "The lamp weighs 340 g.", "Page-2": "A full charge lasts 12 hours."}
    return event | {"labels": {"app": "support", "model": "small-2", "prompt_version": "v7"}}


def _compose(answers: Answers, version: str) -> str:
    host = answers.bootstrap_servers.split(",")[0].rpartition(":")[0].strip("[]")
    on_host = (answers.is_free and not answers.is_offline) or (not answers.is_new_kafka and is_loopback(host))
    depends = "    depends_on: {kafka: {condition: service_healthy}}\n" if answers.is_new_kafka else ""
    key = "" if answers.is_free else "      OPENAI_API_KEY: ${OPENAI_API_KEY:?set the API key of the judge}\n"
    if on_host:
        place = "    network_mode: host # it connects to services on this machine\n"
        environment = f"    environment:\n{key}" if key else ""
    else:
        place = '    ports: ["127.0.0.1:8080:8080"]\n'
        inside = "      JUDGESTREAM_KAFKA__BOOTSTRAP_SERVERS: kafka:9092\n" if answers.is_new_kafka else ""
        environment = f"    environment:\n{inside}      JUDGESTREAM_TELEMETRY__HOST: 0.0.0.0\n{key}"
    judge = _offline(version, on_host=on_host) if answers.is_offline else ""
    return f"""\
# For trying judgestream on one machine: docker compose up --detach, then http://127.0.0.1:8080.
# No TLS, no login, loopback only.
# The image: make image in a clone of judgestream, or name one in JUDGESTREAM_IMAGE.

name: judgestream

services:
{_kafka() if answers.is_new_kafka else ""}\
  worker:
    image: ${{JUDGESTREAM_IMAGE:-judgestream:{version}}}
    init: true
    restart: unless-stopped
    read_only: true
    tmpfs: [/tmp]
    cap_drop: [ALL]
    security_opt: ["no-new-privileges:true"]
{depends}{place}{environment}\
    volumes: ["./{SETTINGS}:/etc/judgestream/config.yaml:ro"]
    stop_grace_period: 60s # calls in flight get 35 s to end
{judge}"""


def _kafka() -> str:
    return f"""\
  kafka:
    image: {KAFKA_IMAGE}
    restart: unless-stopped
    ports: ["127.0.0.1:{HOST_PORT}:{HOST_PORT}"]
    environment:
      KAFKA_NODE_ID: 1
      KAFKA_PROCESS_ROLES: broker,controller
      KAFKA_CONTROLLER_QUORUM_VOTERS: 1@kafka:9094
      KAFKA_LISTENERS: INSIDE://:9092,HOST://:{HOST_PORT},CONTROLLER://:9094
      KAFKA_ADVERTISED_LISTENERS: INSIDE://kafka:9092,HOST://127.0.0.1:{HOST_PORT}
      KAFKA_LISTENER_SECURITY_PROTOCOL_MAP: INSIDE:PLAINTEXT,HOST:PLAINTEXT,CONTROLLER:PLAINTEXT
      KAFKA_INTER_BROKER_LISTENER_NAME: INSIDE
      KAFKA_CONTROLLER_LISTENER_NAMES: CONTROLLER
      KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR: 1
      KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR: 1
      KAFKA_TRANSACTION_STATE_LOG_MIN_ISR: 1
      KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS: 0
      KAFKA_AUTO_CREATE_TOPICS_ENABLE: "false" # the worker creates them (topics.create), not a misspelt name
    healthcheck:
      test: ["CMD", "/opt/kafka/bin/kafka-broker-api-versions.sh", "--bootstrap-server", "127.0.0.1:9092"]
      interval: 10s
      timeout: 10s
      retries: 12
      start_period: 15s
"""


def _offline(version: str, *, on_host: bool) -> str:
    network = "host" if on_host else "service:worker # it listens on loopback only"
    return f"""\
  offline-judge:
    image: ${{JUDGESTREAM_IMAGE:-judgestream:{version}}}
    command: ["offline-judge", "--port", "{OFFLINE_PORT}"]
    init: true
    restart: unless-stopped
    read_only: true
    tmpfs: [/tmp]
    cap_drop: [ALL]
    security_opt: ["no-new-privileges:true"]
    network_mode: {network}
    healthcheck: {{disable: true}}
    depends_on: {{worker: {{condition: service_started, restart: true}}}}
"""
