"""`judgestream init`: write the first files, from five questions or flags and templates."""

from __future__ import annotations

import json
import re
import string
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from typer import Abort, Argument, Option, echo, prompt

from streams.cli.options import require_one_of
from streams.cli.running import BadUsageError

_CONDITION: Final = re.compile(r"([a-z_&]+)\| ")
"""The start of a template's line that stands only under conditions."""
CONTAIN: Final = "Your events contain: reference (a known good answer), pages (cited), both or neither"
JUDGES: Final = "The judge: offline (rules, free), a model of OpenAI's, or MODEL@URL"
USD_A_DAY: Final = 5.0
NEW_KAFKA: Final = "new"
OFFLINE: Final = "offline"
KAFKA_PORT: Final = 29092
"""Port of the compose file's broker for programs on the host."""
JUDGE_PORT: Final = 8000
SETTINGS, COMPOSE, EVENTS, CASES = "settings.yaml", "compose.yaml", "events.jsonl", "cases.yaml"
FILES: Final = {
    SETTINGS: "the settings, with comments",
    COMPOSE: "the services they need, on one machine",
    EVENTS: "a sample event",
    CASES: "tests of the settings",
}
METRICS: Final = {
    "reference": ("coverage",),
    "pages": ("relevance",),
    "both": ("coverage", "relevance"),
    "neither": ("answer_relevance",),
}


def init(
    folder: Path = Argument(Path(), metavar="FOLDER", help="Folder for the files."),
    kafka: str | None = Option(None, metavar="HOST:PORT", help="Your brokers; `new`: in the compose file."),
    topic: str | None = Option(None, metavar="NAME", help="The topic with your answers."),
    comes: str | None = Option(None, "--with", metavar="WHAT", help=f"{CONTAIN}."),
    judge: str | None = Option(None, metavar="MODEL", help=f"{JUDGES}."),
    usd_per_day: float | None = Option(None, metavar="USD", min=0.01, help="Budget per day."),
    rate: float | None = Option(None, metavar="SHARE", min=0, max=1, help="Share of the answers to judge."),
    yes: bool = Option(False, "--yes", "-y", help="Do not prompt; use defaults for missing flags."),
) -> None:
    """Write commented settings, their tests, a compose file and a sample event, from five questions or flags.

    Existing files are kept. The defaults need no key: a broker in the compose file and the rule-based judge.
    """
    there = [str(folder / name) for name in FILES if (folder / name).exists()]
    if there:
        remedy = "name another folder (judgestream init FOLDER) or move it away"
        raise BadUsageError(f"{', '.join(there)}: already exists, so nothing was written; {remedy}")

    def ask(given: Any, question: str, default: Any) -> Any:
        return given if given is not None else default if yes else _asked(question, default)

    from judge.endpoints.options import is_loopback
    from streams.settings.judge import OPENAI_BASE_URL

    kafka = str(ask(kafka, f"Your Kafka, as host:port ({NEW_KAFKA}: one in the compose file)", NEW_KAFKA))
    topic = str(ask(topic, "The topic with your answers", "qa.events"))
    comes = str(ask(comes, CONTAIN, "both"))
    require_one_of("--with", comes, METRICS)
    judge = str(ask(judge, JUDGES, OFFLINE))
    model, _, address = judge.partition("@")
    base_url = f"http://127.0.0.1:{JUDGE_PORT}/v1" if judge == OFFLINE else address or OPENAI_BASE_URL
    is_free = is_loopback(urlsplit(base_url).hostname or "")  # without cost per token
    if is_free:
        rate = float(ask(rate, "Share of the answers to judge, from 0 to 1", 1.0))
    else:
        usd_per_day = float(ask(usd_per_day, "Budget for judging in USD per day", USD_A_DAY))
    servers = f"127.0.0.1:{KAFKA_PORT}" if kafka == NEW_KAFKA else kafka
    host = servers.split(",")[0].rpartition(":")[0].strip("[]")
    on_host = (is_free and judge != OFFLINE) or (kafka != NEW_KAFKA and is_loopback(host))
    flags = {
        "new" if kafka == NEW_KAFKA else "own",
        "free" if is_free else "paid",
        "offline" if judge == OFFLINE else "model",
        "host" if on_host else "inside",
        "" if on_host and is_free else "variables",
        "" if folder == Path() else "folder",
        *METRICS[comes],
    }
    values = {
        "servers": servers,
        "topic": topic,
        "url": base_url,
        "model": model,
        "rate": 0.05 if rate is None else rate,
        "usd": usd_per_day or USD_A_DAY,
        "folder": folder,
        "metrics": " ".join(f"--metric {name}" for name in METRICS[comes]),
    }
    texts = _texts(METRICS[comes], flags, values)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in FILES:
            with (folder / name).open("x", encoding="utf-8") as handle:
                handle.write(texts[name])
    except OSError as error:
        raise BadUsageError(f"cannot write to {folder}: {error.strerror}; name another folder") from error
    for name, what in FILES.items():
        echo(f"{folder / name}: {what}")
    echo(texts["next"], nl=False)


def _asked(question: str, default: Any) -> Any:
    try:
        return prompt(question, default=default, err=True)
    except Abort:
        if sys.stdin.isatty():
            raise
        remedy = "set the other answers by flags, or add --yes for defaults"
        raise BadUsageError(f"standard input ended early; {remedy}") from None


def _texts(metrics: Sequence[str], flags: set[str], values: Mapping[str, Any]) -> dict[str, str]:
    from importlib.metadata import version

    import yaml
    from pydantic import ValidationError

    from judge.chat import OFFLINE_MODEL
    from judge.evaluate.guard import NEUTRAL_EVENT
    from judge.metrics.registry import metric_class
    from streams.judging.endpoints import price_of
    from streams.settings.judge import EndpointSettings
    from streams.settings.problems import explain
    from streams.settings.tree import Settings

    model = OFFLINE_MODEL if "offline" in flags else values["model"]
    every = {"kafka_port": KAFKA_PORT, "judge_port": JUDGE_PORT, "version": version("judgestream"), **values}
    filled = {name: f"{value:g}" if isinstance(value, float) else str(value) for name, value in every.items()}
    quoted = {name: json.dumps(values[name]) for name in ("servers", "topic", "url")}
    in_yaml = filled | quoted | {"model": json.dumps(model)}
    try:
        endpoint = EndpointSettings(name="primary", base_url=values["url"], model=model)
        if "paid" in flags:
            flags = flags | {"unpriced" if price_of(endpoint) is None else "priced"}
        settings = _filled("settings", flags, in_yaml)
        Settings.model_validate(yaml.safe_load(settings))
    except ValidationError as error:
        invalid = EndpointSettings if error.title == "EndpointSettings" else Settings
        problems = "\n".join(f"  {line}" for line in explain(error, invalid))
        raise BadUsageError(f"these answers result in invalid settings:\n{problems}") from None
    texts = {"question", "answer"}.union(*(metric_class(name).needs for name in metrics))
    labels = {"app": "support", "model": "small-2", "prompt_version": "v7"}
    event = {"event_id": "1", **NEUTRAL_EVENT.model_dump(include=texts), "labels": labels}
    return {
        SETTINGS: settings,
        COMPOSE: _filled("compose", flags, in_yaml),
        EVENTS: json.dumps(event) + "\n",
        CASES: _filled("cases", flags, filled),
        "next": _filled("next", flags, filled),
    }


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
