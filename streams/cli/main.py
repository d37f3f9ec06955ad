"""`judgestream`: all commands; errors become text and an exit code here."""

from __future__ import annotations

import errno
import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from typing import Any, Final, NoReturn

import typer

from streams.cli.commands.config import app as config_app
from streams.cli.commands.doctor import doctor, topics
from streams.cli.commands.files import JudgeFile, map_
from streams.cli.commands.init import init
from streams.cli.commands.past import anchors_app, replay
from streams.cli.commands.records import produce, tail
from streams.cli.commands.review import calibrate, labels_app, review
from streams.cli.commands.servers import broker, demo, health, offline_judge, worker
from streams.cli.commands.verdicts import compare, explore, export, incident, show
from streams.cli.running import BadUsageError, CommandError, help_without_command, tell
from streams.cli.session import DEBUG_VARIABLE
from streams.errors import BadFilterError, SettingsError, StreamsError

_CLICK_ERROR: type[Exception] = typer.BadParameter.__mro__[2]
"""Click's base class of usage errors; some versions of Typer bundle their own Click."""

app = typer.Typer(
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
_COMMANDS: Final[Mapping[str, Sequence[tuple[str, Any, str]]]] = {
    "Try": (
        ("demo", demo, "judgestream demo --events 300"),
        ("init", init, "judgestream init first --yes"),
        ("judge", JudgeFile, "judgestream judge events.jsonl --metric coverage -o results.jsonl"),
        ("map", map_, "judgestream map --config settings.yaml --topic qa.events"),
        ("config", config_app, "judgestream config check settings.yaml"),
    ),
    "Run": (
        ("doctor", doctor, "judgestream doctor --config settings.yaml"),
        ("topics", topics, "judgestream topics --config settings.yaml --dry-run"),
        ("worker", worker, "judgestream worker --config settings.yaml"),
        ("health", health, "judgestream health --config settings.yaml --ready --wait 60"),
    ),
    "Look": (
        ("tail", tail, "judgestream tail --config settings.yaml --max-score 2 --since 15m"),
        ("show", show, "judgestream show 1c0ffee --config settings.yaml"),
        ("explore", explore, "judgestream explore --config settings.yaml"),
        ("incident", incident, "judgestream incident latest --config settings.yaml"),
        ("review", review, "judgestream review --config settings.yaml"),
        ("labels", labels_app, "judgestream labels agreement --config settings.yaml"),
        ("calibrate", calibrate, "judgestream calibrate --config settings.yaml --metric relevance"),
        ("export", export, "judgestream export --config settings.yaml --since 7d"),
        ("compare", compare, "judgestream compare --metric coverage --label prompt_version=v7,v8"),
    ),
    "Operate": (
        ("produce", produce, "judgestream produce events.jsonl --config settings.yaml"),
        ("replay", replay, "judgestream replay --config settings.yaml --from 2026-03-14 --max-usd 5"),
        ("anchors", anchors_app, "judgestream anchors add --metric coverage --config settings.yaml"),
        ("broker", broker, "judgestream broker --port 9092 --topic qa.events:4"),
        ("offline-judge", offline_judge, "judgestream offline-judge --port 8000"),
    ),
}
for _panel, _rows in _COMMANDS.items():
    for _name, _command, _example in _rows:
        if isinstance(_command, typer.Typer):
            _command.callback(invoke_without_command=True)(help_without_command)
            app.add_typer(_command, name=_name, rich_help_panel=_panel, epilog=f"Example: {_example}")
        else:
            app.command(_name, rich_help_panel=_panel, epilog=f"Example: {_example}")(_command)


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    debug: bool = typer.Option(False, "--debug", help=f"Show tracebacks (also: {DEBUG_VARIABLE}=1)."),
    version: bool = typer.Option(False, "--version", help="Show the version."),
) -> None:
    """Monitor the quality of live LLM answers: Kafka in, verdicts and alerts out."""
    if version:
        from importlib.metadata import version as version_of

        typer.echo(f"judgestream {version_of('judgestream')}")
        raise typer.Exit
    if debug:
        os.environ[DEBUG_VARIABLE] = "1"
    help_without_command(context)


def run(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit: 0 done, 1 failed, 2 bad usage or configuration, 130 interrupted."""
    for stream in (sys.stdout, sys.stderr):
        # Escape a character that the terminal cannot show, instead of failing.
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr] # both are text streams
    try:
        code = app(args=arguments, prog_name="judgestream", standalone_mode=False)
    except (KeyboardInterrupt, typer.Abort):
        code = 130
    except BrokenPipeError:
        # The reader closed the pipe (`judgestream tail | head`); avoid the interpreter's error at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except Exception as error:  # noqa: BLE001 - the last place that can turn it into a message
        code = _fail(error)
    raise SystemExit(code if isinstance(code, int) else 0)  # a command's own value is no code


def _fail(error: Exception) -> int:
    if isinstance(error, _CLICK_ERROR):
        return _refuse_call(error)
    if isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EDQUOT}:
        place = error.filename or "standard output or a temporary file"
        return report(f"cannot write {place}: the disk is full ({error.strerror}); free some space", 1)
    from judge.errors import JudgeConfigurationError, JudgeUnavailableError

    if isinstance(error, BadUsageError | SettingsError | BadFilterError | JudgeConfigurationError):
        return report(f"--{error}" if isinstance(error, BadFilterError) else error, 2)
    if isinstance(error, CommandError | StreamsError | JudgeUnavailableError):
        return report(error, 1)
    return report(f"{type(error).__name__}: {error}", 1, hint=True)


def _refuse_call(error: Any) -> int:
    context = error.ctx if hasattr(error, "ctx") else None
    text = error.format_message().rstrip(".")
    if hasattr(error.__cause__, "errors"):  # Pydantic's, whose text omits the value
        from streams.settings.problems import describe

        text = text.replace("Input should be", "must be").replace("Value error, ", "")
        if "'" not in text.rpartition(": ")[2]:
            text += f", got {describe(error.__cause__.errors()[0]['input'])}"
    see = " See" if text.endswith("?") else "; see"
    hint = f"{see} {context.command_path} --help" if context is not None else ""
    return report(f"{text}{hint}", getattr(error, "exit_code", 2))


def report(error: Exception | str, code: int, *, hint: bool = False) -> int:
    if os.environ.get(DEBUG_VARIABLE, "") not in {"", "0"} and sys.exc_info()[0] is not None:
        traceback.print_exc()
    elif hint:
        error = f"{error} (run again with {DEBUG_VARIABLE}=1 to see where)"
    tell(f"error: {error}")
    return code
