"""How much a vote reads at least: the first prompt of each sample group, and the tools it names.

    python benchmarks/prompt_size.py

A local server takes the requests of `gagar grade` and answers nothing of use. Tokens are worked out
at four characters each; what a model's own tokens are depends on the model.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

SAMPLE = Path(__file__).parent.parent / "sample_groups" / "rollouts.parquet"
CHARACTERS = 4  # of a token, as a rule of thumb
_COMMON = {"id": "x", "created": 1, "model": "model", "object": "chat.completion"}


class Counting(BaseHTTPRequestHandler):
    """Lists a model, says that tools work, and else answers nothing; counts first prompts."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        """List the model."""
        self._send({"data": [{"id": "model"}]})

    def do_POST(self):
        """Answer a request."""
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        tools = asked.get("tools", [])
        said = {"role": "assistant", "content": "I do not know."}
        if [tool["function"]["name"] for tool in tools] == ["ready"]:
            ready = {"name": "ready", "arguments": '{"ok": true}'}
            call = {"index": 0, "id": "a", "type": "function", "function": ready}
            said = {"role": "assistant", "content": None, "tool_calls": [call]}
        elif len(asked["messages"]) == 2:
            text = sum(len(message["content"]) for message in asked["messages"])
            self.server.found.append(text + len(json.dumps(tools)))
        choice = {"index": 0, "finish_reason": "stop"}
        if asked.get("stream"):
            chunks = [{**_COMMON, "choices": [{**choice, "delta": said}]}]
            data = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks)
            self._send(None, f"{data}data: [DONE]\n\n", "text/event-stream")
        else:
            self._send({**_COMMON, "choices": [{**choice, "message": said}]})

    def _send(self, value, text="", kind="application/json"):
        data = (text or json.dumps(value)).encode()
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        """Say nothing."""


def first_prompts():
    """Return the characters of the first prompt of a vote on each sample group."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Counting)
    server.found = []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as folder:
        command = [
            *(sys.executable, "-m", "gagar_cli", "run", str(SAMPLE), "-q", "-o", f"{folder}/o"),
            *("--root", f"{folder}/root", "--grader-url", f"http://127.0.0.1:{server.server_port}"),
            *("--no-journal", "--votes", "1", "--max-votes", "1", "--max-turns", "1"),
            "--allow-ungraded",
        ]
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    server.shutdown()
    return server.found


def main():
    """Print what it comes to."""
    found = first_prompts()
    mean = statistics.mean(found)
    print(
        f"{len(found)} groups: {mean:,.0f} characters on average, {min(found):,} to "
        f"{max(found):,}; {mean / CHARACTERS:,.0f} tokens at {CHARACTERS} characters each"
    )


if __name__ == "__main__":
    main()
