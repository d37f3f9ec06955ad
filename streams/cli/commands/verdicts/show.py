"""`judgestream show`: show an event with its verdicts and evidence."""
# ruff: noqa: PLC0415 - heavy imports stay inside the command, so that --help is quick

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer

from streams.cli.commands.verdicts.explore import StoreConfigOption, StorePathOption, settings_with_store
from streams.cli.errors import CommandError

MAX_TEXT_CHARS = 4_000
MAX_ITEM_CHARS = 300


def show(
    event_id: Annotated[str, typer.Argument(metavar="EVENT_ID", help="An event id or a result id.")],
    config: StoreConfigOption = None,
    store: StorePathOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per verdict.")] = False,
) -> None:
    """Print one event: question, answer, and each verdict with its evidence, corrections and cost.

    Reads the verdict store (judgestream worker --agents store).
    """
    from judge.text.printable import printable
    from streams.cli.settings import settings_for_command
    from streams.errors import StoreError
    from streams.store import verdicts
    from streams.store.database import Reader

    settings = settings_with_store(settings_for_command(config), store)
    reader = Reader(settings.store.path)
    try:
        with reader.snapshot() as snapshot:
            found = verdicts.of_event(snapshot, event_id)
            one = None if found else verdicts.one(snapshot, event_id)
    except StoreError as error:
        raise CommandError(str(error)) from error
    found = found or ([] if one is None else [one])
    if not found:
        raise CommandError(
            f"the store has no verdict on {printable(event_id, 200)}; was it sampled, and is it "
            "within store.keep_days?"
        )
    if as_json:
        for verdict in found:
            typer.echo(json.dumps(verdict, ensure_ascii=False).encode("utf-8", "backslashreplace").decode())
        return
    for line in _lines(found):
        typer.echo(line)


def _lines(found: list[dict[str, Any]]) -> Iterator[str]:
    from judge.text.printable import printable

    result = found[0]["result"]
    labels = " ".join(
        f"{printable(name, 40)}={printable(value, 80)}" for name, value in result["labels"].items()
    )
    yield f"event {printable(result['event_id'], 200)}, answered {result['times']['occurred_at']}"
    yield f"labels {labels or 'none'}"
    texts = next((one["texts"] for one in found if one["texts"] is not None), None)
    if texts is not None:
        yield from _text("question", texts["question"])
        yield from _text("answer", texts["answer"])
    else:
        yield "(the store has no texts of this event)"
    for verdict in found:
        yield ""
        yield from _verdict(verdict)


def _text(name: str, text: str) -> Iterator[str]:
    from judge.text.printable import printable

    yield f"{name}:"
    yield from (f"    {printable(line, 1_000)}" for line in text[:MAX_TEXT_CHARS].splitlines())
    if len(text) > MAX_TEXT_CHARS:
        yield f"    ({len(text) - MAX_TEXT_CHARS} more characters)"


def _verdict(verdict: Mapping[str, Any]) -> Iterator[str]:
    from judge.text.printable import printable
    from streams.store.views.evidence import items_of

    result = verdict["result"]
    score = verdict["status"] if verdict["score"] is None else str(verdict["score"])
    replay = f", replay {printable(result['replay_id'], 80)}" if result.get("replay_id") else ""
    yield f"{verdict['metric']} {score}{replay}: {verdict['reason']}"
    judge = result.get("judge")
    cost = "no price known" if result.get("cost_usd") is None else f"${result['cost_usd']:.6f}"
    who = (
        "no call"
        if judge is None
        else f"{printable(judge['model_answered'], 80)} at {printable(judge['endpoint'], 80)}"
    )
    yield (
        f"    judged {result['times']['judged_at']} by {who}, {cost}, "
        f"probability {result['sampling']['probability']:g}, result {verdict['result_id']}"
    )
    for item in items_of(result.get("evidence")):
        mark = "+" if item.upheld else "-"
        yield f"    {mark} {item.kind} {printable(item.text, MAX_ITEM_CHARS)}"
        if item.why:
            yield f"        {printable(item.why, MAX_ITEM_CHARS)}"
    for name in ("corrections", "suspicions"):
        for one in result.get(name) or ():
            yield f"    {name[:-1]} {one['kind']}: {printable(one['detail'], MAX_ITEM_CHARS)}"
    for one in verdict["people"]:
        said = "cannot say" if one["score"] is None else f"should be {one['score']}"
        yield f"    {printable(one['who'], 80)}: {said} {printable(one['note'], MAX_ITEM_CHARS)}".rstrip()
