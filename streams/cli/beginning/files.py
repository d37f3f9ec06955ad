"""Builds the texts of the files."""

from __future__ import annotations

import json
import string
from collections.abc import Mapping
from importlib import resources
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
        is_priced: Whether the price of the judge's tokens is known, so that a budget in dollars can be kept.
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
    return _filled(
        "settings",
        servers=json.dumps(answers.bootstrap_servers),
        where=where,
        start=start,
        begins=begins,
        topic=json.dumps(answers.topic),
        create=create,
        rate=f"{answers.sampled:g}",
        metrics=metrics,
        url=json.dumps(answers.base_url),
        model=json.dumps(answers.model),
        key=key,
        budget=_budget(answers, is_priced=is_priced),
    )


class _Template(string.Template):
    """A text with @names: shells and YAML use $."""

    delimiter = "@"


def _filled(name: str, **values: str) -> str:
    text = resources.files("streams.cli.beginning").joinpath(f"{name}.txt").read_text("utf-8")
    return _Template(text).substitute(values)


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
    kafka = _filled("kafka", image=KAFKA_IMAGE, port=str(HOST_PORT)) if answers.is_new_kafka else ""
    network = "host" if on_host else "service:worker # it listens on loopback only"
    judge = _filled("offline", version=version, port=str(OFFLINE_PORT), network=network)
    return _filled(
        "compose",
        kafka=kafka,
        version=version,
        depends=depends,
        place=place,
        environment=environment,
        judge=judge if answers.is_offline else "",
    )
