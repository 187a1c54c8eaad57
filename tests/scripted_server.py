"""A real HTTP server that speaks just enough of the OpenAI protocol, and says what a test wants.

    with ScriptedServer(lambda body: submits([["A"], ["B"]])) as server:
        ... GradeOptions(url=server.url)

A script gets the body of a chat request, parsed, and returns a message, a status, or a Raw answer.
A message goes out as a stream of events where the request asks for one. The grader's first request,
whether the model can call tools, is answered by the server itself unless it is told not to.
"""

import json
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PROMPT_TOKENS = 10_000  # what every prompt counts, enough for none to look cut


@dataclass(frozen=True)
class Raw:
    """An answer as it goes over the wire.

    pauses: seconds before each of as many parts of the body, sent one by one.
    """

    status: int = 200
    body: str = ""
    headers: dict = field(default_factory=dict)
    pauses: tuple = ()


def message(content=None, *calls, finish_reason=None):
    """Make an assistant's message; calls are (name, arguments), a dict or text."""
    return {
        "role": "assistant",
        "content": content,
        "tool_calls": [
            {
                "id": f"id-{number}-{name}",
                "type": "function",
                "function": {
                    "name": name,
                    "arguments": arguments if isinstance(arguments, str) else json.dumps(arguments),
                },
            }
            for number, (name, arguments) in enumerate(calls)
        ],
        "finish_reason": finish_reason or ("tool_calls" if calls else "stop"),
    }


def refused(text, status=400, **more):
    """Make an answer that refuses a request."""
    return Raw(status, json.dumps({"error": {"message": text, **more}}))


def calls(*pairs):
    """Make a message that calls tools."""
    return message(None, *pairs)


def submits(tiers, notes=None):
    """Make a message that submits a ranking, with a note on each label unless given."""
    if notes is None and isinstance(tiers, list):
        notes = {label: f"{label} is fine" for tier in tiers for label in tier}
    return calls(("submit_ranking", {"notes": notes, "tiers": tiers}))


def labels_to_rank(body):
    """Return the labels that the request's submit_ranking takes."""
    tool = next(t["function"] for t in body["tools"] if t["function"]["name"] == "submit_ranking")
    return tool["parameters"]["properties"]["notes"]["required"]


def tool_results(body):
    """Return the tool results of a conversation, oldest first."""
    return [m["content"] for m in body["messages"] if m["role"] == "tool"]


def diffs_by_tool(body):
    """Return what the diff tool showed, by label; empty before it was asked."""
    asked = [
        call
        for m in body["messages"]
        if m["role"] == "assistant"
        for call in m.get("tool_calls") or ()
    ]
    return {
        json.loads(call["function"]["arguments"])["candidate"]: result
        for call, result in zip(asked, tool_results(body), strict=True)
        if call["function"]["name"] == "diff"
    }


def prefers_the_smallest(body):
    """Read every diff by tool, then rank by the number of characters in it."""
    diffs = diffs_by_tool(body)
    labels = labels_to_rank(body)
    if not diffs:
        return calls(*(("diff", {"candidate": label}) for label in labels))
    return submits([[label] for label in sorted(labels, key=lambda name: len(diffs[name]))])


def offered(body):
    """Return the names of the tools that a request offers."""
    return [tool["function"]["name"] for tool in body.get("tools") or ()]


def completion(body, answer, usage):
    """Return a message as the answer to a request, streamed where it asks for that."""
    reason = answer.get("finish_reason", "stop")
    if not body.get("stream"):
        choice = {"index": 0, "message": answer, "finish_reason": reason}
        whole = {"object": "chat.completion", "choices": [choice], "usage": usage}
        return Raw(body=json.dumps(whole))
    numbered = [{"index": n, **call} for n, call in enumerate(answer.get("tool_calls") or ())]
    delta = {**answer, "tool_calls": numbered}
    return events(
        {"choices": [{"index": 0, "delta": delta}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]},
        {"choices": [], "usage": usage},
    )


def events(*chunks, done=True):
    """Return chunks as a stream of events."""
    data = [json.dumps(chunk) for chunk in chunks] + ["[DONE]"] * done
    body = "".join(f"data: {text}\n\n" for text in data)
    return Raw(body=body, headers={"content-type": "text/event-stream"})


class ScriptedServer:
    """Listens on 127.0.0.1 while its context lasts; `bodies` are the chat requests so far."""

    def __init__(self, script, models=("model-1",), *, calls_tools=True, usage=None):
        self._script = script
        self._calls_tools = calls_tools
        self._usage = usage
        self._models = models
        self.bodies = []
        self.headers = []
        self.most_in_flight = 0
        self._in_flight = 0
        self._lock = threading.Lock()

    def __enter__(self):
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def models(self):
        """Answer a request for the models."""
        if isinstance(self._models, int):
            return Raw(self._models, '{"error": {"message": "no list"}}')
        if isinstance(self._models, Raw):
            return self._models
        return Raw(body=json.dumps({"object": "list", "data": [{"id": m} for m in self._models]}))

    def chat(self, raw, headers):
        """Answer a chat request."""
        body = json.loads(raw)
        if self._calls_tools and offered(body) == ["ready"]:
            return completion(body, calls(("ready", {"ok": True})), {})
        with self._lock:
            self.bodies.append(body)
            self.headers.append(headers)
        answer = self._script(body)
        if isinstance(answer, int):
            return Raw(answer, json.dumps({"error": {"message": f"scripted {answer}"}}))
        if isinstance(answer, Raw):
            return answer
        usage = self._usage or {"prompt_tokens": PROMPT_TOKENS, "completion_tokens": 10}
        return completion(body, answer, usage)

    @contextmanager
    def counted(self):
        """Count a request that is being answered."""
        with self._lock:
            self._in_flight += 1
            self.most_in_flight = max(self.most_in_flight, self._in_flight)
        try:
            yield
        finally:
            with self._lock:
                self._in_flight -= 1


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, *_):
        """Say nothing of clients that hang up."""


def _handler(server):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # headers and body in one packet

        def do_GET(self):
            found = self.path == "/v1/models"
            self._send(server.models() if found else Raw(404, "{}"))

        def do_POST(self):
            raw = self.rfile.read(int(self.headers["content-length"]))
            if self.path != "/v1/chat/completions":
                self._send(Raw(404, "{}"))
                return
            with server.counted():
                answer = server.chat(raw, dict(self.headers))
            self._send(answer)

        def _send(self, answer):
            body = answer.body.encode()
            self.send_response(answer.status)
            headers = {"content-type": "application/json", **answer.headers}
            for name, value in {**headers, "content-length": len(body)}.items():
                self.send_header(name, str(value))
            self.end_headers()
            step = -(-len(body) // max(1, len(answer.pauses)))
            for number, pause in enumerate(answer.pauses or (0,)):
                time.sleep(pause)
                self.wfile.write(body[number * step : (number + 1) * step])
                self.wfile.flush()

        def log_message(self, *_):
            """Keep quiet."""

    return Handler
