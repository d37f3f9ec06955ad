"""`judgestream init`: write the first files, from five questions or flags and templates."""
# ruff: noqa: PLC0415 - heavy imports stay inside the command, so that --help is quick

from __future__ import annotations

import json
import string
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from typer import Abort, Argument, Option, echo, prompt

from streams.cli.running import BadUsageError

USD_A_DAY: Final = 5.0
NEW_KAFKA: Final = "new"
OFFLINE: Final = "offline"
HOST_PORT: Final = 29092
"""Port of the compose file's broker for programs on the host."""
OFFLINE_PORT: Final = 8000
KAFKA_IMAGE: Final = "apache/kafka:4.1.1"
CALLS_A_DAY: Final = 1000
"""The budget if no price is known: costs in dollars cannot be counted."""
SETTINGS, COMPOSE, EVENTS = "settings.yaml", "compose.yaml", "events.jsonl"
FILES: Final = {
    SETTINGS: "the settings, with comments",
    COMPOSE: "the services they need, on one machine",
    EVENTS: "a sample event",
}
METRICS: Final = {
    "reference": {"coverage": "reference"},
    "pages": {"relevance": "context"},
    "both": {"coverage": "reference", "relevance": "context"},
    "neither": {"answer_relevance": "question"},
}
"""What events contain besides question and answer: the metrics that fit, with the field that each needs."""
MEANINGS: Final = {
    "coverage": "does the answer contain the facts of the known good answer? 0 to 5",
    "relevance": "does the cited page support every claim? 1 to 5",
    "answer_relevance": "does it answer the question? 1 to 5",
}


@dataclass(frozen=True, slots=True)
class Answers:
    """The answers to the questions."""

    kafka: str
    """host:port, or `new` for a broker in the compose file."""
    topic: str
    comes: str
    """What the events contain: a key of `METRICS`."""
    judge: str
    """`offline`, a model of OpenAI's, or MODEL@URL."""

    @property
    def is_new_kafka(self) -> bool:
        return self.kafka == NEW_KAFKA

    @property
    def servers(self) -> str:
        """The broker's address on the host."""
        return f"127.0.0.1:{HOST_PORT}" if self.is_new_kafka else self.kafka

    @property
    def is_offline(self) -> bool:
        """Whether the judge is the rule-based one."""
        return self.judge == OFFLINE

    @property
    def model(self) -> str:
        from judge.chat import OFFLINE_MODEL

        return OFFLINE_MODEL if self.is_offline else self.judge.partition("@")[0]

    @property
    def base_url(self) -> str:
        from streams.settings.judge import OPENAI_BASE_URL

        if self.is_offline:
            return f"http://127.0.0.1:{OFFLINE_PORT}/v1"
        return self.judge.partition("@")[2] or OPENAI_BASE_URL

    @property
    def is_free(self) -> bool:
        """Whether the judge runs on this machine, without cost per token."""
        from judge.endpoints.options import is_loopback

        return is_loopback(urlsplit(self.base_url).hostname or "")

    @property
    def metrics(self) -> dict[str, str]:
        return METRICS[self.comes]


def init(
    folder: Path = Argument(Path(), metavar="FOLDER", help="Folder for the files."),
    kafka: str | None = Option(
        None, metavar="HOST:PORT", help="Your brokers; `new` for one in the compose file."
    ),
    topic: str | None = Option(None, metavar="NAME", help="The topic with your answers."),
    comes: str | None = Option(
        None,
        "--with",
        metavar="WHAT",
        help="What your events contain: reference (a known good answer), pages (the cited text), both, "
        "neither.",
    ),
    judge: str | None = Option(
        None,
        metavar="MODEL",
        help="offline (rules, costs nothing), a model of OpenAI's, or MODEL@URL for another endpoint.",
    ),
    usd_per_day: float | None = Option(None, metavar="USD", min=0.01, help="Budget per day and worker."),
    rate: float | None = Option(
        None, metavar="SHARE", min=0, max=1, help="Share of the answers to judge, from 0 to 1."
    ),
    yes: bool = Option(False, "--yes", "-y", help="Do not prompt; use defaults for missing flags."),
) -> None:
    """Write a settings file with comments, a compose file and a sample event, from five questions or flags.

    Existing files are kept. The defaults need no key: a broker in the compose file and the rule-based judge.
    """
    there = [str(folder / name) for name in FILES if (folder / name).exists()]
    if there:
        raise BadUsageError(
            f"{', '.join(there)}: already exists, so nothing was written; "
            "name another folder (judgestream init FOLDER) or move it away"
        )

    def ask(given: Any, question: str, default: Any) -> Any:
        return given if given is not None else default if yes else _asked(question, default)

    kafka = ask(kafka, f"Your Kafka, as host:port ({NEW_KAFKA}: one in the compose file)", NEW_KAFKA)
    topic = ask(topic, "The topic with your answers", "qa.events")
    contain = "Your events contain: reference (a known good answer), pages (cited), both or neither"
    comes = ask(comes, contain, "both")
    if comes not in METRICS:
        raise BadUsageError(f"--with must be one of {', '.join(METRICS)}, got {comes!r}")
    judge = ask(judge, "The judge: offline (rules, free), a model of OpenAI's, or MODEL@URL", OFFLINE)
    answers = Answers(str(kafka), str(topic), str(comes), str(judge))
    if answers.is_free:
        rate = float(ask(rate, "Share of the answers to judge, from 0 to 1", 1.0))
    else:
        usd_per_day = float(ask(usd_per_day, "Budget for judging in USD per day", USD_A_DAY))
    texts = _texts(answers, usd_per_day or USD_A_DAY, 0.05 if rate is None else rate)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            with (folder / name).open("x", encoding="utf-8") as handle:
                handle.write(text)
    except OSError as error:
        raise BadUsageError(f"cannot write to {folder}: {error.strerror}; name another folder") from error
    for line in (*(f"{folder / name}: {what}" for name, what in FILES.items()), *_next(folder, answers)):
        echo(line)


def _asked(question: str, default: Any) -> Any:
    try:
        return prompt(question, default=default, err=True)
    except Abort:
        if sys.stdin.isatty():
            raise
        raise BadUsageError(
            "standard input ended early; set the other answers by flags, or add --yes for defaults"
        ) from None


def _next(folder: Path, answers: Answers) -> Iterator[str]:
    """Yield what to do next."""
    yield "\nnext:"
    if folder != Path():
        yield f"  cd {folder}"
    if not answers.is_free:
        yield "  export OPENAI_API_KEY=..."
    yield f"  judgestream config check {SETTINGS}"
    if answers.is_new_kafka:
        yield "  docker compose up --detach"
        without = f"judgestream broker --port {HOST_PORT} --topic {answers.topic}:4"
        judge = f", judgestream offline-judge --port {OFFLINE_PORT}" if answers.is_offline else ""
        worker = f"judgestream worker -c {SETTINGS}"
        yield f"    (without Docker, each in its own terminal: {without}{judge}, {worker})"
        yield f"  judgestream produce {EVENTS} --config {SETTINGS}"
        yield f"  judgestream tail --from-beginning --config {SETTINGS}"
    else:
        # The topic is in use: a sample event does not belong there and may not be sampled.
        metrics = " ".join(f"--metric {name}" for name in answers.metrics)
        yield f"  judgestream judge {EVENTS} {metrics} --config {SETTINGS}"
        for command in ("topics", "doctor", "worker"):
            yield f"  judgestream {command} --config {SETTINGS}"


def _texts(answers: Answers, usd_per_day: float, rate: float) -> dict[str, str]:
    """Build the texts of the files, and validate the settings."""
    import yaml
    from pydantic import ValidationError

    from streams.judging.endpoints import price_of
    from streams.settings import EndpointSettings, Settings
    from streams.settings.problems import explain

    try:
        endpoint = EndpointSettings(name="primary", base_url=answers.base_url, model=answers.model)
        if answers.is_free:
            budget = "none # a judge on this machine costs nothing per token"
        elif price_of(endpoint) is not None:
            budget = f"{{usd_per_day: {usd_per_day:g}}} # per worker; once spent, answers wait in Kafka"
        else:
            limit = f"{{calls_per_day: {CALLS_A_DAY}}}"
            budget = f"{limit} # per worker; without a known price dollars cannot be counted"
        settings = _settings(answers, rate, budget)
        Settings.model_validate(yaml.safe_load(settings))
    except ValidationError as error:
        model = EndpointSettings if error.title == "EndpointSettings" else Settings
        problems = "\n".join(f"  {line}" for line in explain(error, model))
        raise BadUsageError(f"these answers result in invalid settings:\n{problems}") from None
    return {SETTINGS: settings, COMPOSE: _compose(answers), EVENTS: json.dumps(_event(answers)) + "\n"}


class _Template(string.Template):
    """A text with @names: shells and YAML use $."""

    delimiter = "@"


def _filled(name: str, **values: object) -> str:
    from importlib import resources

    text = resources.files("streams.cli").joinpath("templates", f"{name}.txt").read_text("utf-8")
    return _Template(text).substitute(values)


def _settings(answers: Answers, rate: float, budget: str) -> str:
    new = answers.is_new_kafka
    near, far = "the broker of compose.yaml, from this machine", "your cluster; security: {protocol: SASL_SSL"
    no_backlog = "the topic is new: no backlog to judge and pay for"
    metrics = (f"{name}: {{when: {{has: [{field}]}}}}" for name, field in answers.metrics.items())
    create = "judgestream topics --config settings.yaml creates missing topics"
    return _filled(
        "settings",
        servers=json.dumps(answers.servers),
        where=near if new else f"{far}, ...}} for a login",
        start="earliest" if new else "latest",
        begins=no_backlog if new else "start with new events; earliest judges the whole backlog",
        topic=json.dumps(answers.topic),
        create="true # creates missing topics" if new else f"false # {create}",
        rate=f"{rate:g}",
        metrics="".join(f"  {one} # {MEANINGS[one.partition(':')[0]]}\n" for one in metrics),
        url=json.dumps(answers.base_url),
        model=json.dumps(answers.model),
        key="" if answers.is_free else ", api_key_env: OPENAI_API_KEY",
        budget=budget,
    )


def _event(answers: Answers) -> dict[str, Any]:
    needed = set(answers.metrics.values())
    texts = {
        "reference": "The lamp's battery lasts 12 hours.",
        "context": {"Page-1": "The lamp weighs 340 g.", "Page-2": "A full charge lasts 12 hours."},
    }
    return {
        "event_id": "1",
        "question": "How long does the lamp's battery last?",
        "answer": "The battery lasts 12 hours. Evidence: [Page 2]",
        **{name: text for name, text in texts.items() if name in needed},
        "labels": {"app": "support", "model": "small-2", "prompt_version": "v7"},
    }


def _compose(answers: Answers) -> str:
    from importlib.metadata import version

    from judge.endpoints.options import is_loopback

    host = answers.servers.split(",")[0].rpartition(":")[0].strip("[]")
    on_host = (answers.is_free and not answers.is_offline) or (not answers.is_new_kafka and is_loopback(host))
    key = "" if answers.is_free else "      OPENAI_API_KEY: ${OPENAI_API_KEY:?set the API key of the judge}\n"
    if on_host:
        place = "    network_mode: host # it connects to services on this machine\n"
        environment = f"    environment:\n{key}" if key else ""
    else:
        place = '    ports: ["127.0.0.1:8080:8080"]\n'
        inside = "      JUDGESTREAM_KAFKA__BOOTSTRAP_SERVERS: kafka:9092\n" if answers.is_new_kafka else ""
        environment = f"    environment:\n{inside}      JUDGESTREAM_TELEMETRY__HOST: 0.0.0.0\n{key}"
    network = "host" if on_host else "service:worker # it listens on loopback only"
    release = version("judgestream")
    depends = "    depends_on: {kafka: {condition: service_healthy}}\n"
    return _filled(
        "compose",
        kafka=_filled("kafka", image=KAFKA_IMAGE, port=HOST_PORT) if answers.is_new_kafka else "",
        version=release,
        depends=depends if answers.is_new_kafka else "",
        place=place,
        environment=environment,
        judge=_filled("offline", version=release, port=OFFLINE_PORT, network=network)
        if answers.is_offline
        else "",
    )
