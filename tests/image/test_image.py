from __future__ import annotations

import asyncio
import json
import signal
import tarfile
import tomllib
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from packaging.utils import canonicalize_name

from streams.embedded.broker import EmbeddedBroker
from tests.deploy.pins import pinned
from tests.image.builder import Builder, Built, copy_of_the_project, inside, run_inside
from tests.integration.kafka import free_ports
from tests.places import ROOT
from tests.streams.cli.processes import running
from tests.toolbox import ended, image_base, run, tool

pytestmark = [pytest.mark.tools, pytest.mark.timeout(900)]

STRAY = "a-key-that-lies-around-4711"
REVISION = "0123456789abcdef0123456789abcdef01234567"
CONFIG = "/etc/judgestream/config.yaml"
DEADLINE_SECONDS = 60.0


@pytest.fixture(scope="module")
def builder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Builder]:
    made = Builder(tmp_path_factory.mktemp("store"))
    made.make_base()
    yield made
    made.close()


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("context")
    copy_of_the_project(folder, "--others", "--exclude-standard")
    folders = ".env streams/.env judge/own.key judge/own.pem .git/config requirements/own.txt deploy/key.pem"
    for name in (*folders.split(), ".venv/pip.conf"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(STRAY)
    return folder


@pytest.fixture(scope="module")
def image(builder: Builder, context: Path) -> Built:
    arguments = {"VERSION": version("judgestream"), "REVISION": REVISION}
    return builder.build(context, tag="judgestream:test", arguments=arguments)


def test_hadolint_has_nothing_to_say() -> None:
    run(tool("hadolint"), "--failure-threshold", "style", ROOT / "Dockerfile")


def test_it_is_small_and_has_labels_user_command_and_health_check(image: Built) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    about = {"title": "judgestream", "licenses": project["license"], "version": project["version"]}
    labels = {
        f"org.opencontainers.image.{name}": text for name, text in (about | {"revision": REVISION}).items()
    }
    assert image.config["Labels"].items() >= labels.items()
    assert image.config["User"] == "65532:65532"
    assert image.config["Entrypoint"] == ["judgestream"]
    assert image.config["Cmd"] == ["worker", "--config", CONFIG]
    assert image.config["Healthcheck"]["Test"] == ["CMD", "judgestream", "health", "--config", CONFIG]
    assert list(image.config["ExposedPorts"]) == ["8080/tcp"]
    assert image.size_bytes < 350e6


def test_the_demo_does_its_main_job(image: Built) -> None:
    done = run_inside(image, "judgestream", "demo", "--events", "200", "--json", seconds=300)
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary["identity_holds"] is True
    assert summary["events"]["read"] == 200
    assert summary["results"]["scored"] > 0


def test_the_sandbox_is_one(image: Built) -> None:
    tried = """if True:
        import json, os, pathlib
        def written(path):
            try:
                pathlib.Path(path, "probe").touch()
            except OSError:
                return False
            return True
        status = dict(line.split(":", 1) for line in open("/proc/self/status"))
        print(json.dumps({
            "ids": [os.getuid(), os.getgid(), *os.getgroups()],
            "capabilities": {status[name].strip() for name in ("CapEff", "CapPrm", "CapBnd", "CapInh")} == {"0" * 16},
            "written": [path for path in ("/", "/opt/judgestream", "/etc", "/var/tmp", "/dev", "/tmp") if written(path)],
        }))"""  # noqa: E501
    done = run_inside(image, "python3", "-c", tried)
    assert json.loads(done.stdout) == {"ids": [65532, 65532], "capabilities": True, "written": ["/tmp"]}, done


async def test_the_health_check_knows_a_worker(image: Built, tmp_path: Path) -> None:
    """SIGTERM ends the worker."""
    async with EmbeddedBroker() as broker, running("offline-judge", "--port", "0", "--json") as judge:
        address = json.loads(await judge.line())["base_url"]
        settings: dict[str, Any] = {
            "kafka": {"bootstrap_servers": broker.bootstrap_servers, "start": "earliest"},
            "topics": {"create": True, "create_partitions": 1},
            "metrics": {"coverage": {}},
            "judge": {"endpoints": [{"name": "rules", "base_url": address, "model": "offline-rules-1"}]},
            "telemetry": {"port": free_ports(1)[0]},
        }
        (tmp_path / "config.yaml").write_text(json.dumps(settings))
        files = {CONFIG: tmp_path / "config.yaml"}
        check = inside(image, image.config["Healthcheck"]["Test"][1:], files)
        assert (await asyncio.to_thread(ended, *check)).returncode == 1
        worker = await asyncio.create_subprocess_exec(
            *inside(image, ["judgestream", *image.config["Cmd"]], files),
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        told = asyncio.create_task(worker.communicate())
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                while (await asyncio.to_thread(ended, *check)).returncode != 0:
                    assert worker.returncode is None, (await told)[1].decode()
        finally:
            if worker.returncode is None:
                worker.send_signal(signal.SIGTERM)
            async with asyncio.timeout(DEADLINE_SECONDS):
                _, said = await told
        assert worker.returncode == 0, said.decode()


def test_it_has_exactly_the_pinned_packages(image: Built) -> None:
    found = "import importlib.metadata as m; found = {one.name: one.version for one in m.distributions()}"
    done = run_inside(image, "python3", "-c", f"{found}; import json; print(json.dumps(found))")
    installed = {str(canonicalize_name(name)): number for name, number in json.loads(done.stdout).items()}
    assert installed.pop("judgestream") == version("judgestream")
    assert installed == pinned((3, 13))


def test_it_brings_no_tool_that_builds_or_installs(image: Built) -> None:
    for program in ("cc", "gcc", "cpp", "as", "ld", "strip", "make", "git", "curl", "wget"):
        assert run_inside(image, "sh", "-c", f"command -v {program}").returncode != 0, program
    assert "No module named 'pip'" in run_inside(image, "python3", "-c", "import pip").stderr
    assert list(image.root.glob("opt/*")) == [image.root / "opt/judgestream"]
    assert not any((image.root / "src").glob("*"))
    assert not any((image.root / "wheels").glob("*"))


def test_nothing_in_it_raises_rights_or_gives_itself_away(image: Built) -> None:
    with tarfile.open(image_base()) as base:
        before = {one.name.removeprefix("./") for one in base if one.isfile() and one.mode & 0o6000}
    found = {
        str(path.relative_to(image.root))
        for path in image.root.rglob("*")
        if path.is_file() and not path.is_symlink() and path.stat().st_mode & 0o6000
    }
    assert found <= before
    ours = [path.lstat() for path in (image.root / "opt").rglob("*") if not path.is_symlink()]
    assert {(one.st_uid, one.st_gid) for one in ours} == {(0, 0)}
    assert not any(one.st_mode & 0o022 for one in ours)


def test_no_layer_has_keys_or_history(image: Built) -> None:
    skipped = {"proc", "sys", "dev"}
    tops = [top for top in image.root.iterdir() if top.name not in skipped and not top.is_symlink()]
    assert ended("grep", "-rlF", STRAY, *tops).stdout == ""
    assert STRAY not in json.dumps(dict(image.config))


def test_without_a_wheel_the_extensions_are_compiled(builder: Builder, context: Path) -> None:
    """As on arm64, the Cython parts of faust-streaming."""
    arguments = {"PIP_NO_BINARY": "faust-streaming"}
    built = builder.build(context, tag="judgestream:compiled", arguments=arguments, target="build")
    assert "Building wheel for faust-streaming" in built.log
    package = next(built.root.glob("opt/judgestream/lib/python3*/site-packages/faust"))
    compiled = {path.name.split(".")[0] for path in package.rglob("*.so")}
    assert compiled == {"conductor", "fields", "streams", "windows"}
