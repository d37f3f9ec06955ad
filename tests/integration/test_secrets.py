"""No secret appears in any output of real processes, for every place of a secret and every kind of fault."""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import yaml
from aiohttp import ClientSession, web
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from streams.judging.agent import JudgeAgent
from tests.integration.deadlines import until
from tests.integration.guarded_broker import GuardedBroker
from tests.integration.leaks import Scan
from tests.integration.processes import SOON_MISSED, worker
from tests.integration.stage import Stage, event
from tests.judge.fake_openai import completed, serving_completions
from tests.loopback import on_loopback
from tests.places import ROOT
from tests.streams.certificates import Authority
from tests.streams.cli.processes import Ended, call, judgestream

pytestmark = [pytest.mark.timeout(180), pytest.mark.slow]

# Each has characters that URLs, JSON or base64 encode.
SECRETS = {
    "kafka password": "Kafka+pass/word=8841?zq",
    "kafka token": "tok-eyJhbGciOi.J9qq+4411/x",
    "client secret": "client&secret=7719 %zz",
    "key password": "Key#pass\\word'5530",
    "judge key by variable": "sk-Env+key/1207-abcdef",
    "judge key by file": "sk-File+key/9981-ghijkl",
    "judge key by endpoints": "sk-Inline+key/4410-mnopqr",
    "openai key": "sk-OpenAI+key/6632-stuvwx",
    "page password": "Page:pass/wörd+2054",
    "password in an address": "Addr3ss-passw0rd-6718",
    "secret of an event": "sk-proj-EventSecret0123456789abcdef",
}
PATHS = ("", "status.js", "assets/style.css", "status.json", "metrics", "healthz", "readyz", "none")
TOPICS = ("events", "tasks.relevance", "scores", "dead", "alerts", "observations", "monitor_state")


@dataclass
class EchoingJudge:
    keys: set[str] = field(default_factory=set)
    bodies: list[bytes] = field(default_factory=list)
    always: int | None = None
    url: str = ""
    asked: int = 0

    async def complete(self, request: web.Request) -> web.Response:
        sent = request.headers.get("Authorization", "")
        self.keys.add(sent)
        self.bodies.append(await request.read())
        self.asked += 1
        # Each kind of error in turn, but no refusal of the key, so that some events are judged.
        status = self.always or (500, 400, 200, 503, 200, 200)[self.asked % 6]
        if status != 200:
            text = f"upstream refused Authorization: {sent} ({quote(sent)}) of {dict(request.headers)}"
            return web.json_response({"error": {"message": text, "detail": sent}}, status=status)
        verdict = json.dumps({"score": 4, "justification": "ok"})
        return completed(verdict, headers={"X-Echo": sent, "Set-Cookie": f"key={quote(sent)}"})

    async def models(self, request: web.Request) -> web.Response:
        sent = request.headers.get("Authorization", "")
        self.keys.add(sent)
        if self.always:
            return web.json_response({"error": {"message": f"bad: {sent}"}}, status=self.always)
        return web.json_response({"data": [{"id": "m"}]}, headers={"X-Echo": sent})


@contextlib.asynccontextmanager
async def echoing_judge(always: int | None = None) -> AsyncIterator[EchoingJudge]:
    judge = EchoingJudge(always=always)
    async with serving_completions(judge.complete, web.get("/v1/models", judge.models)) as judge.url:
        yield judge


def staged(
    directory: Path, servers: str, security: Mapping[str, Any], *endpoints: Mapping[str, Any]
) -> Stage:
    page = directory / "page-password"
    page.write_text(SECRETS["page password"] + "\n")
    changes = {
        **SOON_MISSED,
        "kafka.security": dict(security),
        # The judge of these tests echoes a score: the short pack takes it.
        "metrics": {"relevance": {"prompt_pack": str(ROOT / "judge" / "prompts" / "relevance.pack.md")}},
        "judge.endpoints": [dict(one) for one in endpoints],
        "judge.redact": ["secrets"],
        "telemetry.log_level": "debug",
        "telemetry.basic_auth": {"username": "ops", "password_file": str(page)},
    }
    return Stage(servers, directory, partitions=2, changes=changes)


def written(directory: Path, name: str, content: Mapping[str, Any] | str) -> str:
    file = directory / name
    file.write_text(content if isinstance(content, str) else yaml.safe_dump(dict(content)))
    return str(file)


def plain(directory: Path) -> dict[str, str]:
    password = directory / "kafka-password"
    password.write_text(SECRETS["kafka password"] + "\n")
    login = {"username": "judge", "password_file": str(password)}
    return {"protocol": "SASL_PLAINTEXT", "mechanism": "PLAIN", **login}


def telling(number: int) -> bytes:
    secret = SECRETS["secret of an event"]
    answer = f"In Paris, says api_key={secret}. Evidence: [Page 1]"
    page = {"Page-1": f"It is in Paris. token: {secret}"}
    return event(number, question=f"Where is it? My key is {secret}.", answer=answer, context=page)


def fail_at_an_event(held: str) -> None:
    """Make the worker fail at one event, with a secret in a variable and in the cause."""
    handle = JudgeAgent.handle

    async def failing(self: Any, record: Any, *args: Any, **kwargs: Any) -> Any:
        if b'"e3"' in (record.value or b""):
            raise RuntimeError("forced") from ValueError("with " + held)
        return await handle(self, record, *args, **kwargs)

    JudgeAgent.handle = failing  # type: ignore[method-assign] # of the worker's process


async def look_at_everything(scan: Scan, url: str) -> None:
    right = base64.b64encode(f"ops:{SECRETS['page password']}".encode()).decode()
    async with ClientSession() as session:
        for sent in (f"Basic {right}", "Basic b3BzOndyb25n", f"Bearer {right}", None):
            headers = {} if sent is None else {"Authorization": sent}
            for path in PATHS:
                for method in ("GET", "POST"):
                    async with session.request(method, f"{url}/{path}", headers=headers) as answer:
                        said = await answer.read()
                        assert answer.status in {200, 401, 404, 405, 503}
                        scan.add(f"{method} {path}", str(answer.headers).encode() + said)


def keep(scan: Scan, place: str, ended: Ended) -> Ended:
    scan.add(f"{place} (out)", ended.out)
    scan.add(f"{place} (err)", ended.err)
    return ended


def assert_clean(scan: Scan) -> None:
    leaks = list(scan.find())
    assert not leaks, "\n".join(leaks)


@pytest.mark.parametrize("secret", SECRETS.values())
def test_the_scan_finds_each_encoding_of_a_secret(secret: str) -> None:
    pair = f"user:{secret}".encode()
    login = base64.b64encode(b"\0user\0" + secret.encode())
    url = base64.urlsafe_b64encode(b"x" + pair)
    escaped = (quote(secret, safe="").encode(), json.dumps({"a": secret}).encode())
    for text in (secret.encode(), *escaped, base64.b64encode(pair), login, url):
        scan = Scan({"one": secret})
        scan.add("place", b"before " + text + b" after")
        assert list(scan.find()), text


async def test_a_failing_worker_prints_no_secret(tmp_path: Path) -> None:
    key_file = tmp_path / "key"
    key_file.write_text(SECRETS["judge key by file"])
    env = {"THE_KEY": SECRETS["judge key by variable"], "OPENAI_API_KEY": SECRETS["openai key"]}
    scan = Scan(SECRETS)
    async with (
        echoing_judge(always=401) as refusing,
        echoing_judge() as flaky,
        GuardedBroker("PLAIN", SECRETS["kafka password"]) as broker,
    ):
        stage = staged(
            tmp_path,
            broker.bootstrap_servers,
            plain(tmp_path),
            {"name": "refusing", "base_url": refusing.url, "model": "m", "api_key_env": "THE_KEY"},
            {"name": "flaky", "base_url": flaky.url, "model": "m", "api_key_file": str(key_file)},
        )
        stage.access = broker.client_options()
        config = str(stage.write_settings())
        prepare = partial(fail_at_an_event, SECRETS["judge key by variable"])
        command = ("--debug", "worker", "--config", config)
        async with worker(*command, log=tmp_path / "log", env=env, prepare=prepare) as one:
            url = await one.url()
            await stage.produce([telling(number) for number in range(12)] + [b"no event", b"{}"])

            async def settled() -> bool:
                return len(await stage.read("scores")) + len(await stage.read("dead")) >= 14

            await until(settled, "12 results and 2 dead letters")
            await look_at_everything(scan, url)
            scan.add("worker", await one.end())
            for topic in TOPICS[1:]:
                for record in await stage.read(topic):
                    scan.add(
                        f"topic {topic}", b"%r %r" % (record.key, record.headers) + (record.value or b"")
                    )
        for body in (*refusing.bodies, *flaky.bodies):
            scan.add("what the judge was sent", body)
    # The test exercised the secrets: keys arrived, logins succeeded, and both failures were logged.
    assert refusing.keys == {f"Bearer {SECRETS['judge key by variable']}"}
    assert flaky.keys == {f"Bearer {SECRETS['judge key by file']}"}
    assert all(welcome for welcome, _ in broker.logins)
    assert len(broker.logins) >= 2
    forced = ("RuntimeError: forced", "ValueError: with ***", "Traceback")
    for words in ("upstream refused", *forced, '"level": "debug"', "[secret]", "401"):
        assert words in scan.text()
    assert scan.size > 50_000
    assert_clean(scan)


async def test_commands(tmp_path: Path) -> None:
    """`config`, `doctor`, `produce`, `tail` and `judge` print no secret, also after refusals that echo it."""
    env = {"THE_KEY": SECRETS["judge key by variable"], "OPENAI_API_KEY": SECRETS["openai key"]}
    inline = {"name": "inline", "model": "m", "api_key": SECRETS["judge key by endpoints"]}
    scan = Scan(SECRETS)
    events = written(tmp_path, "events.jsonl", telling(1).decode() + "\nno event\n")
    async with (
        echoing_judge(always=401) as refusing,
        echoing_judge() as flaky,
        echoing_judge(always=400) as rejecting,
        GuardedBroker("PLAIN", SECRETS["kafka password"]) as broker,
    ):
        refused_key = {"name": "refusing", "base_url": refusing.url, "model": "m", "api_key_env": "THE_KEY"}
        stage = staged(tmp_path, broker.bootstrap_servers, plain(tmp_path), refused_key)
        config = str(stage.write_settings())
        by_variable = env | {
            "JUDGESTREAM_JUDGE__ENDPOINTS": json.dumps([{**inline, "base_url": flaky.url}]),
            "JUDGESTREAM_TELEMETRY__BASIC_AUTH": yaml.safe_dump(
                {"username": "ops", "password": SECRETS["page password"]}
            ),
        }
        shown = [("config", "check", config), ("config", "show", config), ("doctor", "--config", config)]
        both = [(*one, *option) for one in shown for option in ((), ("--json",))]
        both.append(("produce", events, "--config", config, "--topic", stage.topic("events")))
        for number, arguments in enumerate(both):
            # Also with variables for the commands that show or try the settings.
            for variables in (env, by_variable) if number in {3, 5} else (env,):
                ended = await judgestream("--debug", *arguments, env=variables)
                keep(scan, " ".join(arguments[:2]), ended)
                assert ended.code in {0, 1}, ended.err
        for judge in (refusing, rejecting):
            call = ("judge", events, "--metric", "relevance", "--base-url", judge.url, "--model", "m")
            keep(scan, "judge", await judgestream("--debug", *call, env=env))
        broker.secret = "another"
        keep(scan, "doctor, refused", await judgestream("doctor", "-c", config, "--skip", "verdict", env=env))
        refused = await judgestream("--debug", "produce", events, "--config", config, env=env)
        assert keep(scan, "produce, refused", refused).code in {1, 2}
    assert {f"Bearer {SECRETS[f'judge key by {place}']}" for place in ("variable", "endpoints")} <= (
        refusing.keys | flaky.keys
    )
    assert f"Bearer {SECRETS['openai key']}" in rejecting.keys
    assert {welcome for welcome, _ in broker.logins} == {True, False}
    assert "*****" in scan.text()
    assert_clean(scan)


async def test_tokens(tmp_path: Path) -> None:
    scan = Scan(SECRETS)
    asked: list[str] = []

    async def token(request: web.Request) -> web.Response:
        asked.append(request.headers.get("Authorization", "") + await request.text())
        if len(asked) == 1:
            text = f"no: {asked[0]} {SECRETS['client secret']}"
            refusal = {"error": "temporarily_unavailable", "error_description": text}
            return web.json_response(refusal, status=503)
        given = {"access_token": SECRETS["kafka token"], "token_type": "Bearer", "expires_in": 600}
        return web.json_response(given)

    app = web.Application()
    app.router.add_post("/token", token)
    env = {"CLIENT_SECRET": SECRETS["client secret"]}
    async with (
        on_loopback(app) as address,
        echoing_judge() as judge,
        GuardedBroker("OAUTHBEARER", SECRETS["kafka token"]) as broker,
    ):
        client = {"client_id": "judge", "client_secret_env": "CLIENT_SECRET"}
        oauth = {"token_url": f"{address}/token", **client}
        security = {"protocol": "SASL_PLAINTEXT", "mechanism": "OAUTHBEARER", "oauth": oauth}
        endpoint = {"name": "flaky", "base_url": judge.url, "model": "m"}
        stage = staged(tmp_path, broker.bootstrap_servers, security, endpoint)
        config = str(stage.write_settings())
        for command in (("doctor", "--skip", "verdict", "-c"), ("config", "show")):
            keep(scan, command[0], await judgestream("--debug", *command, config, env=env))
        command = ("--debug", "worker", "--config", config)
        async with worker(*command, log=tmp_path / "log", env=env) as one:
            await one.url()
            scan.add("worker", await one.end())
    assert len(asked) >= 2
    assert {welcome for welcome, _ in broker.logins} == {True}
    assert_clean(scan)


async def test_the_password_of_a_key(tmp_path: Path) -> None:
    files = Authority(tmp_path).issue("client", "client.example")
    key = load_pem_private_key(files.key.read_bytes(), None)
    scan = Scan(SECRETS)
    for password in (SECRETS["key password"], "another"):
        files.key.write_bytes(
            key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(password.encode()))
        )
        named = {"certificate_file": str(files.certificate), "key_file": str(files.key)}
        security = {"protocol": "SSL", "key_password_env": "KEY_PASSWORD", **named}
        endpoint = {"name": "none", "base_url": "http://127.0.0.1:9/v1", "model": "m"}
        config = str(staged(tmp_path, "127.0.0.1:9", security, endpoint).write_settings())
        ended = await judgestream(
            "--debug", "doctor", "-c", config, env={"KEY_PASSWORD": SECRETS["key password"]}
        )
        assert keep(scan, "doctor", ended).code == (2 if password == "another" else 1)
    assert "if the key is encrypted" in scan.text()
    assert_clean(scan)


@pytest.mark.usefixtures("no_endpoint")
def test_invalid_settings(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error of a secret in a wrong place names the place, not the secret."""
    secret, in_address = SECRETS["kafka password"], SECRETS["password in an address"]
    bare = "Kafka8841zq0pass"
    scan = Scan(SECRETS | {"bare": bare})
    security: list[Any] = [
        secret,
        [secret],
        {"password_env": secret},
        {"oauth": {"token_url": f"https://u:{in_address}@idp.example", "client_id": "c"}},
    ]
    files: list[dict[str, Any] | str] = [
        *({"kafka": {"security": one}} for one in security),
        {"telemetry": {"basic_auth": {"username": f"ops:{secret}", "password_env": "X"}}},
        {"telemetry": {"basic_auth": secret}},
        f"kafka: {{security: {{password: *{bare}}}}}\n",
        f"kafka: {{security: {{password: !{bare} x}}}}\n",
        f"kafka:\n  security: {{password: {bare}\n",
        f"kafka:\n  security:\n    password: 'x' {bare}\n",
    ]
    calls: list[tuple[str, dict[str, str]]] = [
        (written(tmp_path, f"broken-{number}.yaml", content), {}) for number, content in enumerate(files)
    ]
    cut = {"JUDGESTREAM_KAFKA__SECURITY": f"{{password: {secret}"}
    calls.append((written(tmp_path, "fine.yaml", "{}\n"), cut))
    monkeypatch.setenv("JUDGESTREAM_DEBUG", "1")

    def check(*command: str, env: Mapping[str, str]) -> str:
        with monkeypatch.context() as patched:
            for name, value in env.items():
                patched.setenv(name, value)
            assert call(*command) == 2, (command, env)
        out, err = capfd.readouterr()
        scan.add(f"{command} {list(env)}", out + err)
        return str(out + err)

    for file, env in calls:
        for command in (
            ("config", "check"),
            ("config", "show"),
            ("doctor", "--json", "-c"),
            ("worker", "-c"),
        ):
            check(*command, file, env=env)
    address = f"https://u:{in_address}@api.example/v1"
    judge = ("judge", calls[0][0], "--metric", "relevance")
    key = {"OPENAI_API_KEY": SECRETS["openai key"]}
    assert "OPENAI_BASE_URL" in check(*judge, env=key | {"OPENAI_BASE_URL": address})
    assert "--base-url" in check(*judge, "--base-url", address, env=key)
    assert_clean(scan)
