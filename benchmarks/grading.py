"""Throughput and memory of `gagar grade` against the bare SDK client, in one run.

    python benchmarks/grading.py [--in-flight 256 1024] [--rounds 3] [--json]

A local server, in a process of its own, answers every request after 200 ms with a valid ranking.
Ours grades groups in real workspaces: it reads them, writes the prompts, checks the verdicts, puts
the votes together, and keeps a journal. The peers send as many requests with a prompt of ours, and
do nothing else: `AsyncOpenAI` with its default transport, and with its aiohttp transport. Each
round runs all of them in turn; ratios are medians over rounds.
"""

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import queue
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

DELAY = 0.2  # seconds until an answer
VOTES = 4
PASSING, FAILING = 4, 2
LABELS = "ABCD"
PEERS = {"default client": "default", "aiohttp client": "aiohttp"}


class Answering(asyncio.Protocol):
    """Answers chat requests after a while, and lists one model."""

    def connection_made(self, transport):
        """Start to listen to one client."""
        self.transport = transport
        self.received = bytearray()

    def data_received(self, data):
        """Answer when a request is whole."""
        self.received += data
        head, found, body = bytes(self.received).partition(b"\r\n\r\n")
        length = next(
            (
                int(line[15:])
                for line in head.lower().split(b"\r\n")
                if line[:15] == b"content-length:"
            ),
            0,
        )
        if not found or len(body) < length:
            return
        self.received = bytearray(body[length:])
        loop = asyncio.get_running_loop()
        if head.startswith(b"GET"):
            listed = json.dumps({"data": [{"id": "model"}]}).encode()
            self.transport.write(_http("application/json", listed))
        else:
            loop.call_later(DELAY, self.transport.write, _completion(body[:length]))


def _http(kind, body):
    return (
        f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n".encode()
        + body
    )


def _completion(body):
    name, arguments = "submit_ranking", _VERDICT
    if b'"name": "ready"' in body:
        name, arguments = "ready", '{"ok": true}'
    call = {"index": 0, "id": "a", "function": {"name": name, "arguments": arguments}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    usage = {"prompt_tokens": 4000, "completion_tokens": 200, "total_tokens": 4200}
    common = {"id": "x", "created": 1, "model": "model"}
    if b'"stream": true' not in body:
        choice = {"index": 0, "finish_reason": "tool_calls", "message": message}
        whole = {**common, "object": "chat.completion", "choices": [choice], "usage": usage}
        return _http("application/json", json.dumps(whole).encode())
    chunks = [
        {**common, "choices": [{"index": 0, "delta": message, "finish_reason": "tool_calls"}]},
        {**common, "choices": [], "usage": usage},
    ]
    data = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks)
    return _http("text/event-stream", f"{data}data: [DONE]\n\n".encode())


_NOTE = dict.fromkeys(("requirement", "scope", "risk"), "It does what the task asks, and no more.")
_VERDICT = json.dumps({"notes": dict.fromkeys(LABELS, _NOTE), "tiers": [[n] for n in LABELS]})


def serve(ports):
    """Run the server, telling its port."""

    async def run():
        server = await asyncio.get_running_loop().create_server(
            Answering, "127.0.0.1", 0, backlog=4096
        )
        ports.put(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(run())


def make_groups(folder, count):
    """Write rollouts over a small repository, and assemble them; return the file."""
    repository = folder / "widgets"
    repository.mkdir()
    for number in range(30):
        lines = "".join(f"def f{n}(x):\n    return x + {n}\n\n\n" for n in range(30))
        (repository / f"module_{number}.py").write_text(lines)
    git = ["git", "-c", "user.name=b", "-c", "user.email=b@example.org", "-C", str(repository)]
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "base"]):
        subprocess.run([*git, *command], check=True)
    commit = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
    rows = []
    for group in range(count):
        for number in range(PASSING + FAILING):
            added = "".join(
                f"+    y = x * {group} + {number} - {n}\n" for n in range(2 + 3 * number)
            )
            patch = (
                "diff --git a/module_3.py b/module_3.py\n--- a/module_3.py\n+++ b/module_3.py\n"
                f"@@ -1,2 +1,{4 + 3 * number} @@\n def f0(x):\n{added}     return x + 0\n"
            )
            rows.append(
                {
                    "group_id": f"g{group}",
                    "rollout_id": str(number),
                    "passed": number < PASSING,
                    "repo": "widgets",
                    "base_commit": commit.stdout.strip(),
                    "problem_statement": f"`f0` must take text too. Case {group}.",
                    "patch": patch,
                }
            )
    pq.write_table(pa.Table.from_pylist(rows), folder / "in.parquet")
    gagar = [sys.executable, "-m", "gagar_cli", "assemble", "in.parquet", "-o", "assembled.parquet"]
    subprocess.run([*gagar, "-q"], check=True, cwd=folder)
    return folder / "assembled.parquet"


def ours(url, file, in_flight, journal):
    """Grade all groups; return requests, seconds, and how many groups got a grade."""
    import openai  # noqa: F401  a second to import; the peers have it before they begin too

    from gagar_cli.grading.agent import AgentGrader
    from gagar_cli.grading.journal import Journal
    from gagar_cli.grading.stage import grade
    from gagar_cli.options import GradeOptions
    from gagar_cli.parquet_io import open_source
    from gagar_cli.rollouts import Rollouts

    options = GradeOptions(url=url, votes=VOTES, max_votes=VOTES, concurrency=in_flight)
    kept = Journal(journal)
    grader = AgentGrader(options, journal=kept)
    rollouts = Rollouts.of(open_source(str(file)))
    began = time.perf_counter()
    _, found = grade(rollouts, grader, options)
    seconds = time.perf_counter() - began
    kept.close()
    return found.usage.requests, seconds, found.graded


def peer(url, body, in_flight, requests, transport):
    """Send one request many times with the bare client; return requests, seconds, and answers."""
    import httpx2
    from openai import AsyncOpenAI, DefaultAioHttpClient

    async def run():
        limits = httpx2.Limits(max_connections=in_flight, max_keepalive_connections=in_flight)
        http = DefaultAioHttpClient(limits=limits) if transport == "aiohttp" else None
        # Its usual limit of five seconds on a connection is too short for as many at once.
        client = AsyncOpenAI(
            base_url=url, api_key="x", max_retries=0, http_client=http, timeout=httpx2.Timeout(600)
        )
        slots = asyncio.Semaphore(in_flight)

        async def one():
            async with slots:
                reply = await client.chat.completions.create(**body)
                return bool(reply.choices[0].message.tool_calls)

        began = time.perf_counter()
        answers = await asyncio.gather(*(one() for _ in range(requests)))
        seconds = time.perf_counter() - began
        await client.close()
        return requests, seconds, sum(answers)

    return asyncio.run(run())


def _measured(function, arguments, results):
    answer = function(*arguments)
    peak = resource.getrusage(resource.RUSAGE_SELF)
    results.put((*answer, peak.ru_maxrss / 1024, peak.ru_utime + peak.ru_stime))


def measured(function, *arguments):
    """Run in a fresh process; return its answer, peak memory in MiB, and CPU seconds."""
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    process = context.Process(target=_measured, args=(function, arguments, results))
    process.start()
    while process.is_alive() or not results.empty():
        with contextlib.suppress(queue.Empty):
            answer = results.get(timeout=1)
            process.join()
            return answer
    raise SystemExit(f"{function.__name__}: ended with {process.exitcode}")


def a_request(file):
    """Return the body of a request that ours sends, without streaming."""
    from gagar_cli.grading.case import Case
    from gagar_cli.grading.contract import VoteRecord
    from gagar_cli.grading.conversation import AgentConversation
    from gagar_cli.grading.prompts import default_rubric
    from gagar_cli.grading.rows import read_groups
    from gagar_cli.parquet_io import open_source
    from gagar_cli.rollouts import Rollouts

    groups, _ = read_groups(Rollouts.of(open_source(str(file))))
    view = Case.of(groups[0].view(groups[0].open()), 0).vote(0)
    talk = AgentConversation(view, default_rubric(), VoteRecord(0, "agent", ()))
    return {"model": "model", "messages": talk.messages, "tools": talk.tools, "temperature": 0.7}


def compare(url, file, in_flight, rounds, folder):
    """Run ours and the peers in turn, several times; return the median of each."""
    body = a_request(file)
    rates = {name: [] for name in ("gagar grade", *PEERS)}
    peaks = {name: [] for name in rates}
    for number in range(rounds):
        journal = folder / f"{in_flight}-{number}.sqlite"
        requests, seconds, graded, peak, _ = measured(ours, url, file, in_flight, journal)
        if graded * VOTES != requests - 1:  # one request asks whether tools can be called
            raise SystemExit(f"{graded} groups graded by {requests} requests")
        rates["gagar grade"].append(requests / seconds)
        peaks["gagar grade"].append(peak)
        for name, transport in PEERS.items():
            done, seconds, answers, peak, _ = measured(
                peer, url, body, in_flight, requests, transport
            )
            if answers != done:
                raise SystemExit(f"{name}: {answers} of {done} answered")
            rates[name].append(done / seconds)
            peaks[name].append(peak)
    fast = rates["aiohttp client"]
    return [
        {
            "in_flight": in_flight,
            "what": name,
            "requests_per_second": statistics.median(rates[name]),
            "ratio": statistics.median(a / b for a, b in zip(rates[name], fast, strict=True)),
            "peak_mib": statistics.median(peaks[name]),
        }
        for name in rates
    ]


def main():
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--in-flight", type=int, nargs="+", default=[256, 1024])
    parser.add_argument("--groups", type=int, default=1100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    ports = multiprocessing.SimpleQueue()
    server = multiprocessing.Process(target=serve, args=(ports,), daemon=True)
    server.start()
    url = f"http://127.0.0.1:{ports.get()}/v1"
    with tempfile.TemporaryDirectory(prefix="gagar-benchmark-") as name:
        folder = Path(name)
        file = make_groups(folder, options.groups)
        rows = [
            row
            for in_flight in options.in_flight
            for row in compare(url, file, in_flight, options.rounds, folder)
        ]
    server.terminate()
    if options.json:
        print(json.dumps(rows))
        return
    print(f"{'in flight':>9}  {'what':<16}{'requests/s':>11}{'x aiohttp':>11}{'peak MiB':>10}")
    for row in rows:
        print(
            f"{row['in_flight']:>9}  {row['what']:<16}{row['requests_per_second']:>11.0f}"
            f"{row['ratio']:>11.2f}{row['peak_mib']:>10.0f}"
        )


if __name__ == "__main__":
    main()
