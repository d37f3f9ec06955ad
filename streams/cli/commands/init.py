"""`judgestream init`: write the first files, from five questions or flags."""
# ruff: noqa: PLC0415 - heavy imports stay inside the command, so that --help is quick

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast, get_args

import typer

from streams.cli.errors import BadUsageError

if TYPE_CHECKING:
    from streams.cli.beginning.answers import Answers

USD_A_DAY = 5.0


def init(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder for the files.")] = Path(),
    kafka: Annotated[
        str | None,
        typer.Option("--kafka", metavar="HOST:PORT", help="Your brokers; `new` for one in the compose file."),
    ] = None,
    topic: Annotated[
        str | None, typer.Option("--topic", metavar="NAME", help="The topic with your answers.")
    ] = None,
    comes: Annotated[
        str | None,
        typer.Option(
            "--with",
            metavar="WHAT",
            help="What your events contain: reference (a known good answer), pages (the cited text), both, "
            "neither.",
        ),
    ] = None,
    judge: Annotated[
        str | None,
        typer.Option(
            "--judge",
            metavar="MODEL",
            help="offline (rules, costs nothing), a model of OpenAI's, or MODEL@URL for another endpoint.",
        ),
    ] = None,
    usd_per_day: Annotated[
        float | None,
        typer.Option("--usd-per-day", metavar="USD", min=0.01, help="Budget per day and worker."),
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(
            "--rate", metavar="SHARE", min=0, max=1, help="Share of the answers to judge, from 0 to 1."
        ),
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Do not prompt; use defaults for missing flags.")
    ] = False,
) -> None:
    """Write a settings file with comments, a compose file and a sample event, from five questions or flags.

    Existing files are kept. The defaults need no key: a broker in the compose file and the rule-based judge.
    """
    from streams.cli.beginning.answers import NEW_KAFKA, OFFLINE, Answers, Comes
    from streams.cli.beginning.files import COMPOSE, EVENTS, SETTINGS

    there = [name for name in (SETTINGS, COMPOSE, EVENTS) if (folder / name).exists()]
    if there:
        raise BadUsageError(
            f"{', '.join(str(folder / name) for name in there)}: already exists, so nothing was written; "
            "name another folder (judgestream init FOLDER) or move it away"
        )
    ask = _Asked(yes=yes)
    kafka = ask(kafka, f"Your Kafka, as host:port ({NEW_KAFKA}: one in the compose file)", NEW_KAFKA)
    topic = ask(topic, "The topic with your answers", "qa.events")
    comes = ask(
        comes, "Your events contain: reference (a known good answer), pages (cited), both or neither", "both"
    )
    if comes not in get_args(Comes):
        raise BadUsageError(f"--with must be one of {', '.join(get_args(Comes))}, got {comes!r}")
    judge = ask(judge, "The judge: offline (rules, free), a model of OpenAI's, or MODEL@URL", OFFLINE)
    answers = Answers(kafka, topic, cast("Comes", comes), judge, usd_per_day or USD_A_DAY, rate)
    if answers.is_free:
        rate = float(ask(rate, "Share of the answers to judge, from 0 to 1", answers.sampled))
    else:
        usd_per_day = float(ask(usd_per_day, "Budget for judging in USD per day", USD_A_DAY))
    answers = Answers(kafka, topic, cast("Comes", comes), judge, usd_per_day or USD_A_DAY, rate)
    _write(folder, _texts(answers))
    _tell(folder, answers)


class _Asked:
    """Asks the questions that no flag answers."""

    def __init__(self, *, yes: bool) -> None:
        self._yes = yes

    def __call__(self, given: Any, question: str, default: Any) -> Any:
        if given is not None:
            return given
        if self._yes:
            return default
        try:
            return typer.prompt(question, default=default, err=True)
        except typer.Abort:
            if sys.stdin.isatty():
                raise
            raise BadUsageError(
                "standard input ended early; set the other answers by flags, or add --yes for defaults"
            ) from None


def _texts(answers: Answers) -> dict[str, str]:
    """Build the texts of the files, and validate the settings."""
    from importlib.metadata import version

    import yaml
    from pydantic import ValidationError

    from streams.cli.beginning.files import SETTINGS, files
    from streams.judging.endpoints import price_of
    from streams.settings import EndpointSettings, Settings
    from streams.settings.problems import explain

    try:
        endpoint = EndpointSettings(name="primary", base_url=answers.base_url, model=answers.model)
        texts = files(answers, is_priced=price_of(endpoint) is not None, version=version("judgestream"))
        Settings.model_validate(yaml.safe_load(texts[SETTINGS]))
    except ValidationError as error:
        model = EndpointSettings if error.title == "EndpointSettings" else Settings
        problems = "\n".join(f"  {line}" for line in explain(error, model))
        raise BadUsageError(f"these answers result in invalid settings:\n{problems}") from None
    return texts


def _write(folder: Path, texts: dict[str, str]) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            with (folder / name).open("x", encoding="utf-8") as handle:
                handle.write(text)
    except OSError as error:
        raise BadUsageError(f"cannot write to {folder}: {error.strerror}; name another folder") from error


def _tell(folder: Path, answers: Answers) -> None:
    from streams.cli.beginning.answers import HOST_PORT, OFFLINE_PORT
    from streams.cli.beginning.files import COMPOSE, EVENTS, SETTINGS

    for name, what in (
        (SETTINGS, "the settings, with comments"),
        (COMPOSE, "the services they need, on one machine"),
        (EVENTS, "a sample event"),
    ):
        typer.echo(f"{folder / name}: {what}")
    typer.echo("\nnext:")
    if folder != Path():
        typer.echo(f"  cd {folder}")
    if not answers.is_free:
        typer.echo("  export OPENAI_API_KEY=...")
    typer.echo(f"  judgestream config check {SETTINGS}")
    if answers.is_new_kafka:
        typer.echo("  docker compose up --detach")
        without = f"judgestream broker --port {HOST_PORT} --topic {answers.topic}:4"
        judge = f", judgestream offline-judge --port {OFFLINE_PORT}" if answers.is_offline else ""
        typer.echo(
            f"    (without Docker, each in its own terminal: {without}{judge}, judgestream worker -c "
            f"{SETTINGS})"
        )
        typer.echo(f"  judgestream produce {EVENTS} --config {SETTINGS}")
        typer.echo(f"  judgestream tail --from-beginning --config {SETTINGS}")
    else:
        # The topic is in use: a sample event does not belong there and may not be sampled.
        metrics = " ".join(f"--metric {name}" for name in answers.metrics)
        typer.echo(f"  judgestream judge {EVENTS} {metrics} --config {SETTINGS}")
        typer.echo(f"  judgestream topics --config {SETTINGS}")
        typer.echo(f"  judgestream doctor --config {SETTINGS}")
        typer.echo(f"  judgestream worker --config {SETTINGS}")
