"""The estimated cost of a day in `config check`."""

from __future__ import annotations

import asyncio
import gc
import json
import socket
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer

from streams.cli import preview as asking
from streams.cli.preview import ask_day, day_line, estimate_day
from streams.intake.trial import raw_record
from streams.judging.metrics import build_metrics
from streams.kafka.record import Record
from streams.settings.load import load_settings
from streams.settings.tree import Settings
from tests.threaded_broker import broker_in_thread

EVENT = {"event_id": "1", "question": "q", "answer": "a", "reference": "r"}
JUDGE = {
    "endpoints": [
        {
            "name": "a",
            "base_url": "https://llm.example.com/v1",
            "model": "m",
            "usd_per_million_tokens": {"input": 10, "output": 100},
        }
    ],
    "budget": "none",
}


def settings(**sections: object) -> Settings:
    return Settings.model_validate({"judge": JUDGE, "metrics": {"coverage": {"rate": 0.5}}, **sections})


def record(**fields: object) -> Record:
    return raw_record(json.dumps(EVENT | fields).encode())


def test_rates_and_conditions_count() -> None:
    """Calls and tokens are estimated from a sample by sampling rates and conditions.

    Four records stand for 1,000 a day: two are gold (sampled at 1), one is other (at 0.1), one is
    undecodable. Half of the sampled events go to coverage: 250 * (1 + 1 + 0.1) * 0.5 = 262.5 calls. A reply
    has 400 tokens at 100 USD per million; a token of input costs 10 USD per million.
    """
    sampling = {"default_rate": 0.1, "rules": [{"name": "gold", "when": {"tier": "gold"}, "rate": 1}]}
    gold = record(labels={"tier": "gold"})
    latest = [gold, gold, record(), raw_record(b"nothing")]
    effort = estimate_day(settings(sampling=sampling), 1000, latest)
    assert effort.total.calls == pytest.approx(262.5)
    assert effort.cost_usd == pytest.approx((effort.total.input_tokens * 10 + 262.5 * 400 * 100) / 1e6)
    assert effort.total.input_tokens / effort.total.calls > 500, (
        "the estimate leaves out the prompt's instructions"
    )


def test_every_vote_counts_and_what_gives_vectors_writes_nothing() -> None:
    """Each vote of a panel is a call; an embedding call has no output tokens.

    Ten sampled records with three votes are 30 calls, and with embeddings ten. A vote has its prompt and a
    reply of 400 tokens; the embedding of answer and reference, "a" and "r", has 9 tokens each: 10 * 18 = 180.
    """
    panel = {"coverage": {"panel": {"samples": 3}}}
    effort = estimate_day(settings(metrics=panel), 10, [record()])
    single = estimate_day(settings(metrics={"coverage": {}}), 10, [record()])
    assert (effort.total.calls, single.total.calls) == (30, 10)
    assert effort.cost_usd == pytest.approx(3 * (single.cost_usd or 0))
    near = {"near": {"code": {"similarity": "embeddings"}, "endpoints": ["a"]}}
    assert build_metrics(settings(metrics=near))["near"].scoring_version == "embedding-cosine-1"
    vectors = estimate_day(settings(metrics=near), 10, [record()])
    assert (vectors.total.calls, vectors.total.input_tokens, vectors.total.output_tokens) == (10, 180, 0)
    assert vectors.cost_usd == pytest.approx(180 * 10 / 1e6)


def test_a_conversation_is_one_call() -> None:
    """Five events of one conversation are one call: of ten records a day, 10 + 2 calls."""
    sampling = {"key": "record_key"}
    metrics = {"coverage": {}, "tone": {"unit": "conversation"}}
    talk = [record(event_id=str(number), conversation_id="c") for number in range(5)]
    assert estimate_day(settings(metrics=metrics, sampling=sampling), 10, talk).total.calls == 12


def test_a_model_of_a_metrics_own_has_its_own_price() -> None:
    """A metric's own model has its published price, not the price configured for the endpoint's model."""
    own = {"name": "a", "model": "m", "usd_per_million_tokens": {"input": 1e3, "output": 1e3}}
    judge = {"endpoints": [own], "budget": "none"}
    metrics = {"coverage": {"model": "gpt-4.1-mini"}}
    effort = estimate_day(settings(judge=judge, metrics=metrics), 10, [record()])
    # 0.4 and 1.6 USD a million tokens.
    assert effort.cost_usd == pytest.approx((effort.total.input_tokens * 0.4 + 10 * 400 * 1.6) / 1e6)


def test_an_unknown_price_gives_no_cost() -> None:
    """Without a known price the cost is unknown, not 0. A cost above the budget gives a hint."""
    judge = {"endpoints": [{"name": "a", "base_url": "http://127.0.0.1:1/v1", "model": "m"}]}
    effort = estimate_day(settings(judge=judge), 10, [record()])
    assert day_line(1, effort, None).endswith(" tokens: no price is known (an estimate)")
    dear = estimate_day(settings(), 1000, [record()])
    usd = dear.cost_usd or 0
    hint = f"judge.budget allows ${usd / 2:,.2f} per worker: sample less or raise it"
    assert day_line(1, dear, usd / 2).endswith(hint)
    assert "budget" not in day_line(1, dear, usd)


async def _produce(servers: str, count: int) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=servers)
    await producer.start()
    try:
        for number in range(count):
            await producer.send("qa.events", json.dumps(EVENT | {"event_id": str(number)}).encode())
    finally:
        await producer.stop()


def test_the_topic_is_asked(tmp_path: Path) -> None:
    """The estimate counts the seven records of the topic.

    A topic without records, or an unreachable broker, is reported and is not an error.
    """
    file = tmp_path / "settings.yaml"
    with broker_in_thread(topics={"qa.events": 2}) as servers:
        document = {"kafka": {"bootstrap_servers": servers}, "judge": JUDGE, "metrics": {"coverage": {}}}
        file.write_text(json.dumps(document))
        assert ask_day(load_settings(file, {}), file) == "not known, qa.events has no records"
        asyncio.run(_produce(servers, 7))
        day = ask_day(load_settings(file, {}), file)
        assert day.startswith("7 records in the last 24 hours, of which these settings make 7 calls with ")
    assert ask_day(load_settings(file, {}), file).startswith("not known, no Kafka broker answers at")


def test_a_broker_that_does_not_answer_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that accepts the connection and never answers is abandoned at the timeout.

    The client is closed.
    """
    monkeypatch.setattr(asking, "ASK_SECONDS", 0.2)
    file = tmp_path / "settings.yaml"
    with socket.create_server(("127.0.0.1", 0)) as silent:
        servers = f"127.0.0.1:{silent.getsockname()[1]}"
        document = {"kafka": {"bootstrap_servers": servers}, "judge": JUDGE, "metrics": {"coverage": {}}}
        file.write_text(json.dumps(document))
        assert ask_day(load_settings(file, {}), file) == "not known, the broker did not answer within 0.2 s"
    gc.collect()  # an unclosed client raises a ResourceWarning here, which is an error
