"""`judgestream init`: write the first files, from five questions or flags and templates."""
# ruff: noqa: PLC0415 - heavy imports stay inside the command, so that --help is quick

from __future__ import annotations

import json
import re
import string
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from typer import Abort, Argument, Option, echo, prompt

from streams.cli.running import BadUsageError

_CONDITION: Final = re.compile(r"([a-z_&]+)\| ")
"""The start of a template's line that stands only under conditions."""
USD_A_DAY: Final = 5.0
NEW_KAFKA: Final = "new"
OFFLINE: Final = "offline"
KAFKA_PORT: Final = 29092
"""Port of the compose file's broker for programs on the host."""
JUDGE_PORT: Final = 8000
SETTINGS, COMPOSE, EVENTS = "settings.yaml", "compose.yaml", "events.jsonl"
FILES: Final = {
    SETTINGS: "the settings, with comments",
    COMPOSE: "the services they need, on one machine",
    EVENTS: "a sample event",
}
METRICS: Final = {
    "reference": ("coverage",),
    "pages": ("relevance",),
    "both": ("coverage", "relevance"),
    "neither": ("answer_relevance",),
}
"""What events contain besides question and answer, and the metrics that fit."""
TEXTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "coverage": {"reference": "The lamp's battery lasts 12 hours."},
    "relevance": {
        "context": {"Page-1": "The lamp weighs 340 g.", "Page-2": "A full charge lasts 12 hours."},
    },
}
"""What the sample event needs for a metric."""


@dataclass(frozen=True, slots=True)
class Answers:
    """The answers to the questions."""

    kafka: str
    """host:port, or `new` for a broker in the compose file."""
    topic: str
    metrics: Sequence[str]
    judge: str
    """`offline`, a model of OpenAI's, or MODEL@URL."""

    @property
    def is_new(self) -> bool:
        """Whether the broker is one in the compose file."""
        return self.kafka == NEW_KAFKA

    @property
    def is_offline(self) -> bool:
        """Whether the judge is the rule-based one."""
        return self.judge == OFFLINE

    @property
    def base_url(self) -> str:
        from streams.settings.judge import OPENAI_BASE_URL

        if self.is_offline:
            return f"http://127.0.0.1:{JUDGE_PORT}/v1"
        return self.judge.partition("@")[2] or OPENAI_BASE_URL

    @property
    def is_free(self) -> bool:
        """Whether the judge runs on this machine, without cost per token."""
        return _is_near(urlsplit(self.base_url).hostname or "")


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
    answers = Answers(str(kafka), str(topic), METRICS[str(comes)], str(judge))
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
    if answers.is_new:
        yield "  docker compose up --detach"
        without = f"judgestream broker --port {KAFKA_PORT} --topic {answers.topic}:4"
        judge = f", judgestream offline-judge --port {JUDGE_PORT}" if answers.is_offline else ""
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
    """Fill in the templates, and validate the settings."""
    from importlib.metadata import version

    import yaml
    from pydantic import ValidationError

    from judge.chat import OFFLINE_MODEL
    from streams.judging.endpoints import price_of
    from streams.settings import EndpointSettings, Settings
    from streams.settings.problems import explain

    model = OFFLINE_MODEL if answers.is_offline else answers.judge.partition("@")[0]
    servers = f"127.0.0.1:{KAFKA_PORT}" if answers.is_new else answers.kafka
    host = servers.split(",")[0].rpartition(":")[0].strip("[]")
    on_host = (answers.is_free and not answers.is_offline) or (not answers.is_new and _is_near(host))
    values = {"servers": servers, "topic": answers.topic, "url": answers.base_url, "model": model}
    numbers = {"rate": f"{rate:g}", "usd": f"{usd_per_day:g}", "version": version("judgestream")}
    ports = {"kafka_port": str(KAFKA_PORT), "judge_port": str(JUDGE_PORT)}
    filled = {name: json.dumps(value) for name, value in values.items()} | numbers | ports
    try:
        endpoint = EndpointSettings(name="primary", base_url=answers.base_url, model=model)
        flags = {
            "new" if answers.is_new else "own",
            "free" if answers.is_free else "paid",
            "" if answers.is_free else "unpriced" if price_of(endpoint) is None else "priced",
            "offline" if answers.is_offline else "",
            "host" if on_host else "inside",
            "" if on_host and answers.is_free else "variables",
            *answers.metrics,
        }
        settings = _filled("settings", flags, filled)
        Settings.model_validate(yaml.safe_load(settings))
    except ValidationError as error:
        invalid = EndpointSettings if error.title == "EndpointSettings" else Settings
        problems = "\n".join(f"  {line}" for line in explain(error, invalid))
        raise BadUsageError(f"these answers result in invalid settings:\n{problems}") from None
    event: dict[str, Any] = {
        "event_id": "1",
        "question": "How long does the lamp's battery last?",
        "answer": "The battery lasts 12 hours. Evidence: [Page 2]",
    }
    for metric in answers.metrics:
        event.update(TEXTS.get(metric, {}))
    event["labels"] = {"app": "support", "model": "small-2", "prompt_version": "v7"}
    return {SETTINGS: settings, COMPOSE: _filled("compose", flags, filled), EVENTS: json.dumps(event) + "\n"}


def _is_near(host: str) -> bool:
    from judge.endpoints.options import is_loopback

    return is_loopback(host)


class _Template(string.Template):
    """A text with @names: shells and YAML use $."""

    delimiter = "@"


def _filled(name: str, flags: Collection[str], values: Mapping[str, str]) -> str:
    """Return a template with its values; a line that begins with `flag&flag|` is for these flags alone."""
    from importlib import resources

    text = resources.files("streams.cli").joinpath("templates", f"{name}.txt").read_text("utf-8")
    lines = []
    for line in text.splitlines(keepends=True):
        marked = _CONDITION.match(line)
        if marked is None or set(marked[1].split("&")) <= set(flags):
            lines.append(line[marked.end() :] if marked else line)
    return _Template("".join(lines)).substitute(values)
