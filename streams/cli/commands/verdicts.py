"""What reads the verdict store: `show`, `incident`, `compare`, `explore`, `export`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from typer import Argument, Exit, Option, echo

from judge.text.printable import printable
from streams.cli.options import BROKERS, CONFIG, JSON, JSON_LINES, METRIC, ONLY_LABEL, ONLY_METRIC, STORE
from streams.cli.running import BadUsageError, CommandError, cancel, emit, emit_each, tell
from streams.cli.session import Session, session

if TYPE_CHECKING:
    from streams.settings.tree import Settings
    from streams.store.views.incidents import Incident

MAX_TEXT_CHARS = 4_000
MAX_ITEM_CHARS = 300
GATE_CODES: Final = {"no worse": 0, "worse": 1, "not yet": 3}
GATE_SECONDS, EXPORT_SECONDS = 120, 24 * 3600
"""These may run longer than a page's query."""


def show(
    event_id: str = Argument(..., metavar="EVENT_ID", help="An event id or a result id."),
    config: Path | None = CONFIG,
    store: Path | None = STORE,
    as_json: bool = JSON_LINES,
) -> None:
    """Print one event: question, answer, and each verdict with its evidence, corrections and cost.

    Reads the verdict store (judgestream worker --agents store).
    """
    from streams.store import verdicts

    with session(config, store=store).snapshot() as snapshot:
        found = verdicts.of_event(snapshot, event_id)
        one = None if found else verdicts.one(snapshot, event_id)
    found = found or ([] if one is None else [one])
    if not found:
        asked = "was it sampled, and is it within store.keep_days?"
        raise CommandError(f"the store has no verdict on {printable(event_id, 200)}; {asked}")
    emit_each(found, _event_lines(found), as_json=as_json)


def _event_lines(found: list[dict[str, Any]]) -> Iterator[str]:
    result = found[0]["result"]
    labels = [f"{printable(name, 40)}={printable(value, 80)}" for name, value in result["labels"].items()]
    yield f"event {printable(result['event_id'], 200)}, answered {result['times']['occurred_at']}"
    yield f"labels {' '.join(labels) or 'none'}"
    texts: dict[str, str] = next((one["texts"] for one in found if one["texts"] is not None), {})
    if not texts:
        yield "(the store has no texts of this event)"
    for name in ("question", "answer") if texts else ():
        text = texts[name]
        yield f"{name}:"
        yield from (f"    {printable(line, 1_000)}" for line in text[:MAX_TEXT_CHARS].splitlines())
        if len(text) > MAX_TEXT_CHARS:
            yield f"    ({len(text) - MAX_TEXT_CHARS} more characters)"
    for verdict in found:
        yield ""
        yield from _verdict_lines(verdict)


def _verdict_lines(verdict: Mapping[str, Any]) -> Iterator[str]:
    from streams.store.verdicts import items_of

    result = verdict["result"]
    score = verdict["status"] if verdict["score"] is None else str(verdict["score"])
    replay = f", replay {printable(result['replay_id'], 80)}" if result.get("replay_id") else ""
    yield f"{verdict['metric']} {score}{replay}: {verdict['reason']}"
    judge = result.get("judge")
    cost = "no price known" if result.get("cost_usd") is None else f"${result['cost_usd']:.6f}"
    who = "no call"
    if judge is not None:
        who = f"{printable(judge['model_answered'], 80)} at {printable(judge['endpoint'], 80)}"
    yield (
        f"    judged {result['times']['judged_at']} by {who}, {cost}, "
        f"probability {result['sampling']['probability']:g}, result {verdict['result_id']}"
    )
    for item in items_of(result.get("evidence")):
        yield f"    {'+' if item.upheld else '-'} {item.kind} {printable(item.text, MAX_ITEM_CHARS)}"
        if item.why:
            yield f"        {printable(item.why, MAX_ITEM_CHARS)}"
    for name in ("corrections", "suspicions"):
        for one in result.get(name) or ():
            yield f"    {name[:-1]} {one['kind']}: {printable(one['detail'], MAX_ITEM_CHARS)}"
    for one in verdict["people"]:
        score = "cannot say" if one["score"] is None else f"should be {one['score']}"
        yield f"    {printable(one['who'], 80)}: {score} {printable(one['note'], MAX_ITEM_CHARS)}".rstrip()


def incident(
    incident_id: str | None = Argument(
        None, metavar="[ID]", help="The incident, one of its alerts, or latest; default: list all."
    ),
    config: Path | None = CONFIG,
    store: Path | None = STORE,
    link: str | None = Option(None, metavar="URL", help="Address of the explorer, for links to examples."),
    rejudge: bool = Option(
        False, "--rejudge", help="Also judge old answers again, for a new word: product, judge or both."
    ),
    as_json: bool = JSON,
) -> None:
    """Print an incident: what fell, the likely cause, examples, and what to do next.

    Drops that started together form one incident. In a file or a pipe the report is Markdown, for a ticket or
    a chat. Reads the verdict store (judgestream worker --agents store).
    """
    from streams.store.views.explorer import score_ranges
    from streams.store.views.incidents import known_incidents, summary_of
    from streams.store.views.report import card, markdown, report_on, values_of

    call = session(config, store=store)
    with call.snapshot() as snapshot:
        if incident_id is None and rejudge:
            raise BadUsageError("--rejudge needs an incident; as in: judgestream incident latest --rejudge")
        if incident_id is None:
            listed = [summary_of(one) | {"card": card(one)} for one in known_incidents(snapshot)]
            emit_each(listed, _listed(listed), as_json=as_json)
            return
        found = call.incident(snapshot, incident_id)
        ranges, labels = score_ranges(call.settings), call.settings.store.product_labels
        report = report_on(snapshot, found, ranges=ranges, product_labels=labels)
    if rejudge:
        call.run(lambda _: _rejudge(call, found))
    text = markdown(found, report, link=link)
    if sys.stdout.isatty() and not as_json:
        from rich.console import Console
        from rich.markdown import Markdown

        Console().print(Markdown(text))
    else:
        emit(values_of(found, report), text.splitlines(), as_json=as_json)


async def _rejudge(call: Session, incident: Incident) -> None:
    from streams.monitoring.burst import has_word
    from streams.monitoring.observations import DEMAND

    if call.settings.monitor.rejudge_per_day == 0:
        raise BadUsageError("--rejudge: monitor.rejudge_per_day is 0; raise it and restart the workers")
    alerts = {(one.metric, one.fingerprint): one for one in incident.drops if has_word(one)}
    if not alerts or incident.ended_at is not None:
        what = "is over" if alerts else "has no drop of all answers"
        which = f"incident {incident.incident_id} {what}"
        raise BadUsageError(f"--rejudge: {which}; only a drop of all answers that lasts gets a word")
    async with call.sending(call.settings.topics.observations) as send:
        for one in alerts.values():
            await send(one, one.metric, [(DEMAND, b"")])
    what = "old answers are judged again; the new word comes with this incident when that many live ones came"
    tell(f"{', '.join(sorted({one.metric for one in alerts.values()}))}: {what}")


def _listed(incidents: list[dict[str, Any]]) -> Iterator[str]:
    from streams.store.views.incidents import counted_alerts

    for one in incidents:
        since = datetime.fromtimestamp(int(str(one["started"])) / 1000, UTC)
        state = "open" if one["ended"] is None else "over"
        drop = f"{one['card'][0]} ({counted_alerts(int(str(one['alerts'])))})"
        yield f"{one['incident_id']} {state} since about {since:%Y-%m-%d %H:%M} UTC: {drop}"
    if not incidents:
        yield "the store has no drops"


def compare(
    metric: str = METRIC,
    label: str = Option(..., metavar="NAME=OLD,NEW", help="The label, its value in use and the new one."),
    margin: float = Option(0.1, help="Points of the metric's scale that NEW may be lower."),
    alpha: float = Option(0.05, help="Probability of a wrong answer, over all looks together."),
    by: str | None = Option(None, metavar="LABEL", help="Also stratify by this label, such as the app."),
    cluster: str | None = Option(
        None, metavar="LABEL", help="Answers with one value of it, such as the user, count once."
    ),
    since: str | None = Option(None, help="Start time, fixed over all looks: 2026-03-14 or RFC 3339."),
    evaluator: str | None = Option(None, metavar="FINGERPRINT", help="Only scores of this evaluator."),
    config: Path | None = CONFIG,
    store: Path | None = STORE,
    as_json: bool = JSON,
) -> None:
    """Say whether answers with a new label value score worse than with the old one, at every look.

    Look as often as you like: the error is bounded over all looks. Exit code 0: not worse by the margin;
    1: worse by at least the margin, or an error; 3: not yet known. A share of unscored and failed answers
    that rises by the margin (as a part of the scale) is worse, too. Reads the verdict store
    (judgestream worker --agents store).
    """
    from streams.store.database import read_store
    from streams.store.gate import look
    from streams.store.views.explorer import rising_metrics, score_ranges

    settings = session(config, store=store).settings
    query = {
        "metric": metric, "label": label, "margin": str(margin), "alpha": str(alpha), "by": by or "",
        "cluster": cluster or "", "since": since or "", "evaluator": evaluator or "",
    }  # fmt: skip
    ranges, rising, now = score_ranges(settings), rising_metrics(settings), datetime.now(UTC)
    opened = read_store(settings.store.path, GATE_SECONDS)
    found = look(opened, query, ranges=ranges, rising=rising, now=now)
    emit(asdict(found), [found.text()], as_json=as_json)
    raise Exit(GATE_CODES[found.answer])


def explore(
    config: Path | None = CONFIG,
    store: Path | None = STORE,
    port: int = Option(8081, "--port", "-p", min=0, max=65535, help="Port; 0 picks a free one."),
    follow: bool = Option(False, "--follow", help="Update the store from the topics, as its only writer."),
) -> None:
    """Browse the verdict store: answers, their evidence, charts, incidents.

    Read only, until Ctrl-C. Listens on telemetry.host (127.0.0.1 by default) with its password and TLS. An
    address that others can reach requires a password or a client certificate.
    """
    from streams.store.agent import StoreAgent
    from streams.store.views.explorer import Explorer
    from streams.web.port import Port, open_access

    call = session(config, store=store)
    call.log_as_worker()

    async def serve(stop: asyncio.Event) -> None:
        settings, host = call.settings, call.settings.telemetry.host
        auth, tls = open_access(settings.telemetry)
        listening = Port(setting="--port", host=host, port=port, auth=auth, tls=tls)
        if not listening.guarded:
            what = f"telemetry.host: {host} can be reached by others, who could read answers"
            remedy = "set telemetry.basic_auth, or telemetry.tls with client_ca_file, or listen on 127.0.0.1"
            raise BadUsageError(f"{what}; {remedy}")
        if not follow:
            call.require_store("name it with --store, or use --follow")
        async with AsyncExitStack() as stack:
            if follow:
                stack.push_async_callback(cancel, asyncio.create_task(StoreAgent(settings).run()))
            line = "answers: {}/explore (stop with Ctrl-C)"
            await call.serve(listening, [Explorer(settings)], stop, line)

    call.run(serve)


def export(
    since: str | None = Option(None, help="Start time: 24h, 7d, 2026-03-14, or RFC 3339."),
    until: str | None = Option(None, help="End time."),
    metric: str | None = ONLY_METRIC,
    label: list[str] | None = ONLY_LABEL,
    form: Literal["csv", "jsonl", "parquet"] = Option("jsonl", "--format", "-f", help="Output format."),
    output: Path | None = Option(None, "--output", "-o", metavar="FOLDER", help="Folder for a file per day."),
    from_topics: bool = Option(False, "--from-topics", help="Read the topics instead of the store."),
    views: Literal["duckdb", "clickhouse"] | None = Option(
        None, help="Only print SQL to read the files or topic."
    ),
    config: Path | None = CONFIG,
    store: Path | None = STORE,
    bootstrap_servers: str | None = BROKERS,
) -> None:
    """Write verdicts as CSV, JSON lines or Parquet, one row each, with human labels.

    Parquet needs the extra `parquet` and --output.
    """
    from streams.store import verdicts
    from streams.store.database import read_store
    from streams.store.query import parse
    from streams.store.views.export import flat, sql, write_days, write_stream

    settings = session(config, bootstrap_servers, store).settings
    if views is not None:
        servers, topic = settings.kafka.bootstrap_servers, settings.topics.scores
        echo(sql(views, folder=str(output or "export"), brokers=servers, topic=topic), nl=False)
        return
    if form == "parquet" and output is None:
        raise BadUsageError("--format parquet needs --output FOLDER")
    query = {name: value for name, value in (("since", since), ("until", until), ("metric", metric)) if value}
    wanted = parse(query, label or [], datetime.now(UTC))
    with (
        _source(settings, from_topics=from_topics) as path,
        read_store(path, EXPORT_SECONDS) as snapshot,
    ):
        rows = (flat(row) for row in verdicts.every(snapshot, wanted))
        if output is None:
            write_stream(rows, sys.stdout, form)
        else:
            tell(f"{write_days(rows, output, form)} verdicts in {output}")


@contextmanager
def _source(settings: Settings, *, from_topics: bool) -> Iterator[Path]:
    from tempfile import TemporaryDirectory

    if not from_topics:
        yield settings.store.path
        return
    with TemporaryDirectory(prefix="judgestream-export-") as folder:
        path = Path(folder) / "store.sqlite3"
        kept = settings.store.model_copy(
            update={"path": path, "texts": "none", "keep_days": 3_650, "max_gigabytes": 10_000.0}
        )
        call = Session(settings.model_copy(update={"store": kept}))
        call.run(lambda stop: _fill(call.settings, stop))
        yield path


async def _fill(settings: Settings, stop: asyncio.Event) -> None:
    from streams.store.agent import StoreAgent

    agent = StoreAgent(settings)
    task = asyncio.create_task(agent.run())
    try:
        while not stop.is_set() and agent.behind != 0:
            if agent.trouble is not None:
                raise CommandError(agent.trouble)
            await asyncio.sleep(0.1)
    finally:
        await cancel(task)
    if stop.is_set():
        raise Exit(130)
