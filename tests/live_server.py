"""A language model behind llama.cpp's own HTTP server, in a process of its own.

    with live_server(slot_tokens=4096) as url:
        ... GradeOptions(url=url)

It needs the package xllamacpp and a model file, named by GAGAR_LIVE_GGUF. Run as a script, this
file is the server: it prints its address once it can answer, and ends with its standard input.
"""

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

MODEL = "SmolLM2-135M-Instruct"  # the name under which the server lists its model
_ENDS_WITHIN = 20  # seconds


def missing():
    """Say what is missing for a live server; empty where nothing is."""
    if find_spec("xllamacpp") is None:
        return "the package xllamacpp is not installed"
    path = os.environ.get("GAGAR_LIVE_GGUF", "")
    if not Path(path).is_file():
        return f"GAGAR_LIVE_GGUF names no file (got {path!r}, expected a model in GGUF)"
    return ""


@contextmanager
def live_server(slot_tokens=4096, key=""):
    """Serve the model while the context lasts; give the URL.

    slot_tokens: the context of a request, its answer included. A key is asked for where one is
    given. Requests are answered one by one: each finds the beginning that it shares with the last
    one in the cache, which saves more than answering two at once.
    """
    settings = {"slot_tokens": slot_tokens, "key": key}
    process = subprocess.Popen(
        [sys.executable, __file__, json.dumps(settings)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        # The line comes once the model is loaded; a process that cannot load it ends without.
        address = next((line for line in process.stdout if line.startswith("http")), "")
        if not address:
            raise RuntimeError(
                f"the server ended with {process.wait()}; {missing() or 'no reason'}"
            )
        yield f"{address.strip()}/v1"
    finally:
        process.stdin.close()
        try:
            process.wait(_ENDS_WITHIN)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


def _serve(settings):
    import xllamacpp  # noqa: PLC0415  only this process needs it

    params = xllamacpp.CommonParams()
    params.model.path = os.environ["GAGAR_LIVE_GGUF"]
    params.model_alias = {MODEL}
    params.n_parallel = 1
    params.n_ctx = settings["slot_tokens"]
    # Two threads on two cores wait for each other whenever anything else runs.
    params.cpuparams.n_threads = 1
    params.cpuparams_batch.n_threads = 1
    # On a processor, with a model this small, an answer takes a third less time without.
    params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    params.api_keys = [settings["key"]] if settings["key"] else []
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)  # noqa: T201  what the other process waits for
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    _serve(json.loads(sys.argv[1]))
