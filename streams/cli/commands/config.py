"""`judgestream config`: check and show settings."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer import Argument, Exit, Option, Typer, echo

from judge.text.printable import printable
from streams.cli.options import JSON, require_one_of
from streams.cli.running import BadUsageError, CommandError, emit, json_text
from streams.cli.session import log_to_stderr, settings_for_command
from streams.errors import SettingsError

if TYPE_CHECKING:
    from streams.settings.judge import EndpointSettings
    from streams.settings.tree import Settings

app = Typer(help="Check, show and describe settings files.", rich_markup_mode=None, add_completion=False)
FILE = Argument(..., metavar="FILE", help="The settings file (YAML).")


@app.command()
def check(file: Path = FILE, as_json: bool = JSON) -> None:
    """Validate a settings file and print a summary, or every problem (exit code 2).

    Prompt packs are shown as sent to the judge for a sample event; `judgestream config test` estimates what
    one costs. JUDGESTREAM_<SECTION>__<FIELD> overrides the file, as for the worker.
    """
    from streams.cli.trial import prompt_lines, rates_line, sample_prompts

    log_to_stderr("warning")  # a pack's warnings
    try:
        settings = settings_for_command(file, runnable=True)
    except BadUsageError as error:
        if as_json and isinstance(error.__cause__, SettingsError):
            echo(json_text({"ok": False, "problems": error.__cause__.problems}))
            raise Exit(2) from None
        raise
    prompts = sample_prompts(settings)
    summary = _summary(settings)
    rates = rates_line(settings)
    summary["sampling"] += [] if rates is None else [rates]
    lines = [f"{file}: ok"]
    for name, value in (summary | {"prompts": chain.from_iterable(map(prompt_lines, prompts))}).items():
        for position, line in enumerate([value] if isinstance(value, str) else value):
            lines.append(f"  {name if position == 0 else '':<10} {line}")
    emit({"ok": True, **summary, "prompts": prompts}, lines, as_json=as_json)


@app.command("test", epilog="Example: judgestream config test cases.yaml")
def run_cases(
    file: Path = Argument(..., metavar="FILE", help="The cases (YAML)."),
    config: Path | None = Option(
        None, "--config", "-c", metavar="FILE", help="Settings; default: those that the cases name."
    ),
    as_json: bool = JSON,
) -> None:
    """Test what settings do with records: event, sampling, metrics, endpoints, what is sent, cost.

    Nothing is judged, and neither a broker nor a key is needed. Exit code 1: a case failed, with what was
    expected and found; 2: the cases or the settings are invalid.
    """
    from pydantic import ValidationError

    from streams.cli.trial import CaseFile, CaseTrial, failures
    from streams.settings.load import read_document
    from streams.settings.problems import explain

    log_to_stderr("warning")
    try:
        cases = CaseFile.model_validate(read_document(file, "docs/deploy.md"), context={"base": file.parent})
    except ValidationError as error:
        problems = "\n  ".join(explain(error, CaseFile)).replace("is not a setting", "is not known")
        raise BadUsageError(f"the cases of {file} are invalid:\n  {problems}") from error
    trial = CaseTrial(settings_for_command(config or cases.settings))
    done: list[dict[str, Any]] = []
    for case in cases.tests:
        found = list(trial.found(case.records()))
        wrong = list(failures(case.expect, found))
        done.append({"name": case.name, "ok": not wrong, "failures": wrong, "found": found})
    if not done:
        raise BadUsageError(f"{file}: tests is empty; add one")
    failed = sum(not case["ok"] for case in done)
    emit({"ok": not failed, "cases": done}, _case_lines(done), as_json=as_json)
    if failed:
        raise CommandError(f"{failed} of {len(done)} cases failed")


def _case_lines(cases: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a row per event: probability, stratum, metrics with endpoints, mean cost; and what failed."""
    for case in cases:
        start = f"{'ok' if case['ok'] else 'FAILED':<6}  {printable(case['name'], 50):<50}"
        for one in case["found"]:
            row = f"no task: {printable(one['problem'] or '', 100)}"
            if one["problem"] is None:
                usd = "no known price" if one["usd"] is None else f"${one['usd']:.6f}"
                asked = ", ".join("/".join((name, *of["endpoints"])) for name, of in one["metrics"].items())
                row = f"{_share(one['probability'])} {one['stratum']}  {asked or 'no metric'}  {usd}"
            yield f"{start}  {row}"
        for wrong in case["failures"]:
            yield f"        {wrong['what']}: expected {wrong['expected']}, found {wrong['found']}"


@app.command()
def show(file: Path = FILE, as_json: bool = JSON) -> None:
    """Print the effective settings, with defaults and environment, and with secrets masked."""
    import yaml

    from streams.settings.load import mask

    values = mask(settings_for_command(file))
    emit(values, [yaml.safe_dump(values, sort_keys=False, allow_unicode=True).rstrip("\n")], as_json=as_json)


@app.command()
def schema() -> None:
    """Print the JSON Schema of the settings file, for editors and reviews."""
    from streams.settings.load import settings_schema

    echo(json.dumps(settings_schema(), indent=2, ensure_ascii=False))


@app.command()
def prompts(
    metric: str | None = Argument(None, help="A built-in metric; default: all."),
    as_json: bool = Option(False, "--json", help="Print JSON, with response schemas and hashes."),
    as_pack: bool = Option(False, "--as-pack", help="Print a prompt pack of one metric, to change."),
) -> None:
    """Print the built-in prompts: the constant instructions that precede each event.

    Your own prompt pack replaces them (metrics.<name>.prompt_pack).
    """
    from judge.metrics.base import BuiltInMetric
    from judge.metrics.registry import build_metric, metric_names

    named = {name: one for name in metric_names() if isinstance(one := build_metric(name), BuiltInMetric)}
    if metric is not None:
        require_one_of("metric", metric, named)
    if as_pack:
        if metric is None:
            raise BadUsageError(f"--as-pack needs a metric, one of {', '.join(named)}; name it")
        echo(_pack(metric), nl=False)
        return
    shown = [
        {"metric": one.name, "hash": one.prompt_hash, "prompt": one.instructions}
        | {"response_schema": one.response_schema and one.response_schema.schema}
        for one in (named.values() if metric is None else [named[metric]])
    ]
    lines = (f"# {one['metric']}, {one['hash']}\n\n{one['prompt']}" for one in shown)
    emit(shown, lines, as_json=as_json)


_COUNTED = """
Give `score`, too, a whole number after the list: 5 if everything in it holds, 4 if more than 3/5 of it do, 3
for at least 2/5, 2 for any, 1 for none.
"""
"""Code counts the list of a built-in metric; in a pack the judge does."""


def _pack(name: str) -> str:
    """Return a prompt pack with a metric's prompt, in which the judge says the score."""
    import yaml

    from judge.metrics.library import LibraryMetric, library_prompt
    from judge.metrics.packs.templates import split_front_matter
    from judge.metrics.prompting import load_prompt
    from judge.metrics.registry import metric_class

    if metric_class(name) is not LibraryMetric:
        return load_prompt(f"{name}.pack")
    prompt = library_prompt(name)
    options: dict[str, Any] = yaml.safe_load(split_front_matter(load_prompt(f"library/{name}"))[0] or "")
    options = {key: one for key, one in options.items() if key not in ("uses", "counts")}
    options["event"] = ["messages" if one == "instructions" else one for one in prompt.uses]
    schema: Any = prompt.schema_of_reply.schema
    system = prompt.instructions
    if prompt.counts is not None:
        options["score_range"] = list(prompt.score_range)
        schema = schema | {
            "properties": schema["properties"] | {"score": {"type": "integer"}},
            "required": [*schema["required"], "score"],
        }
        system += _COUNTED
    options["response_schema"] = schema
    front = yaml.safe_dump({"name": f"my_{name}", **options}, sort_keys=False, allow_unicode=True)
    return f"---\n{front}---\n## System\n\n{system.strip()}\n\n## User\n\n{{{{ event }}}}\n"


def _summary(settings: Settings) -> dict[str, Any]:
    topics, sampling, registry = settings.topics, settings.sampling, settings.ingest.registry
    others = "other" if sampling.rules else "all"
    most = "" if sampling.budget is None else "up to "
    summary = {
        "kafka": f"{settings.kafka.bootstrap_servers} ({settings.kafka.security.protocol}), "
        f"group {settings.kafka.group_id}",
        "registry": None if registry is None else registry.url,
        "topics": [
            f"{topics.events} -> {', '.join(topics.task_topic(name) for name in settings.metrics)}",
            f"-> {topics.scores}, {topics.dead_letters}, {topics.alerts}",
        ],
        "sampling": [
            *(
                f"{most}{_share(rule.rate)} of events with {_conditions(rule.when)} ({rule.name})"
                for rule in sampling.rules
            ),
            f"{most}{_share(sampling.default_rate)} of {others} events",
        ],
        "metrics": [
            f"{name}: {_share(metric.rate)} of {'all' if metric.is_code else 'sampled'} events"
            + "".join(f", with {field}" for field in metric.when.has)
            + (f", with {_conditions(metric.when.labels)}" if metric.when.labels else "")
            + (f", prompts of {metric.prompt_pack}" if metric.prompt_pack else "")
            + (f", {metric.python.function}" if metric.python else "")
            + (f", model {metric.model}" if metric.model else "")
            + (f", a panel of {metric.panel.votes} votes" if metric.panel else "")
            + (f", all by {two.endpoint}, {_share(two.strong_share)} also by its own judge" if two else "")
            for name, metric in settings.metrics.items()
            for two in (metric.two_phase,)
        ],
        "judge": _endpoints(settings),
        "sinks": f"{', '.join(settings.sinks)}, by a worker with --agents sink" if settings.sinks else None,
        "telemetry": f"http://{settings.telemetry.host}:{settings.telemetry.port}",
        "deprecated": list(settings.deprecated),
    }
    return {name: value for name, value in summary.items() if value is not None}


def _share(rate: float) -> str:
    return f"{100 * rate:.4g}%"


def _conditions(labels: Mapping[str, Sequence[str]]) -> str:
    return " and ".join(f"{label}={'|'.join(values)}" for label, values in labels.items())


def _endpoints(settings: Settings) -> list[str]:
    from streams.judging.endpoints import judge_endpoints

    return [
        f"{'else ' if number and '/' not in one.name else ''}{one.name}: {one.model} at {one.base_url}"
        + _limits(one)
        for number, one in enumerate(judge_endpoints(settings.judge, os.environ, settings.metrics))
    ] or ["none: code decides all metrics"]


def _limits(endpoint: EndpointSettings) -> str:
    limits = {
        "concurrent calls": endpoint.max_in_flight,
        "requests per minute": endpoint.requests_per_minute,
        "tokens per minute": endpoint.tokens_per_minute,
    }
    return "".join(f", at most {limit:,g} {what}" for what, limit in limits.items() if limit is not None)
