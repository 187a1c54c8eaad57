"""A language model behind llama.cpp's own HTTP server, in a process of its own.

    with live_server(slots=2, slot_tokens=4096) as url:
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
def live_server(slots=1, slot_tokens=4096, threads=1, key=""):
    """Serve the model while the context lasts; give the URL.

    slots: requests answered at once. slot_tokens: the context of each. A key is asked for where
    one is given.
    """
    settings = {"slots": slots, "slot_tokens": slot_tokens, "threads": threads, "key": key}
    # Threads that wait for one another must not spin: on few cores they would starve the others.
    environment = {**os.environ, "OMP_WAIT_POLICY": "passive"}
    process = subprocess.Popen(
        [sys.executable, __file__, json.dumps(settings)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
        text=True,
    )
    try:
        # The model is loaded before the line is printed; one that cannot be loaded ends the process.
        address = next((line for line in process.stdout if line.startswith("http")), "")
        if not address:
            pytest_message = f"the live server ended with {process.wait()}"
            raise RuntimeError(pytest_message)
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
    params.n_parallel = settings["slots"]
    params.n_ctx = settings["slots"] * settings["slot_tokens"]
    params.cpuparams.n_threads = settings["threads"]
    params.cpuparams_batch.n_threads = settings["threads"]
    params.api_keys = [settings["key"]] if settings["key"] else []
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)  # noqa: T201  what the other process waits for
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    _serve(json.loads(sys.argv[1]))
