import asyncio
import contextlib
import socket
import threading
import time
from email.utils import formatdate

import pytest
from scripted_server import PROMPT_TOKENS, Raw, ScriptedServer, message

from gagar_cli.errors import GraderError, OptionError, UngradedError
from gagar_cli.grading.client import ChatClient
from gagar_cli.grading.contract import Usage
from gagar_cli.options import GradeOptions

HELLO = [{"role": "user", "content": "hello"}]


@pytest.fixture(autouse=True)
def no_keys(monkeypatch):
    monkeypatch.delenv("GAGAR_GRADER_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


class Naps(list):
    """Stands for sleep: notes how long it should last."""

    async def __call__(self, seconds):
        self.append(seconds)


def talk(url, number=1, **options):
    """Start a client and ask it `number` times, one after the other; return all there is."""
    usage, naps = Usage(), Naps()

    async def go():
        client = ChatClient(GradeOptions(url=url, **options), usage, naps)
        await client.start()
        try:
            replies = [await client.complete(HELLO, []) for _ in range(number)]
        finally:
            await client.close()
        return client.model, replies

    model, replies = asyncio.run(go())
    return model, replies, usage, naps


def in_turn(*answers):
    """Make a script that gives its answers one after the other, the last one for ever."""
    left = list(answers)
    return lambda _: left.pop(0) if len(left) > 1 else left[0]


def test_a_reply_has_content_calls_and_tokens():
    said = message("Let me look.", ("diff", {"candidate": "A"}), ("nothing", "{oops"))
    with ScriptedServer(lambda _: said) as server:
        _, [reply], usage, _ = talk(server.url)
    assert reply.content == "Let me look."
    assert [(c.id, c.name, c.arguments) for c in reply.tool_calls] == [
        ("id-0-diff", "diff", '{"candidate": "A"}'),
        ("id-1-nothing", "nothing", "{oops"),
    ]
    assert (usage.requests, usage.retries) == (1, 0)
    assert (usage.prompt_tokens, usage.completion_tokens) == (PROMPT_TOKENS, 10)


def test_a_request_says_what_the_options_say():
    with ScriptedServer(lambda _: message("hi")) as server:
        talk(server.url, temperature=0.25, max_output_tokens=77)
    [body] = server.bodies
    assert body["messages"] == HELLO
    assert (body["model"], body["temperature"], body["max_tokens"]) == ("model-1", 0.25, 77)


def test_the_only_model_served_is_used():
    with ScriptedServer(lambda _: message("hi"), models=["just-me"]) as server:
        assert talk(server.url)[0] == "just-me"


def error_at_start(models, **options):
    with ScriptedServer(lambda _: message("hi"), models=models) as server:
        with pytest.raises(GraderError) as caught:
            talk(server.url, **options)
        assert server.bodies == []
        assert str(caught.value).startswith(server.url)
    return str(caught.value)


def test_several_models_are_listed_when_none_is_named():
    error = error_at_start(["large", "small"])
    assert "large, small" in error
    assert "--model" in error


def test_a_model_that_is_not_served_is_refused_with_those_that_are():
    error = error_at_start(["large", "small"], model="huge")
    assert "'huge'" in error
    assert "large, small" in error


def test_a_long_list_of_models_is_cut():
    error = error_at_start([f"m{n}" for n in range(100)], model="huge")
    assert "m9 and 90 more" in error


@pytest.mark.parametrize("status", [404, 405])
def test_a_server_without_a_list_of_models_takes_the_one_named(status):
    with ScriptedServer(lambda _: message("hi"), models=status) as server:
        assert talk(server.url, model="mine")[0] == "mine"
    assert "--model" in error_at_start(status)


@pytest.mark.parametrize("status", [401, 403])
def test_a_key_that_is_refused_at_the_start_is_one_error(status):
    error = error_at_start(status)
    assert str(status) in error
    assert "GAGAR_GRADER_API_KEY" in error


@pytest.mark.parametrize("body", ["<html>hello</html>", "[]", "null", '{"data": null}', "{oops"])
def test_a_list_of_models_that_is_none_is_one_error(body):
    assert "no list of models" in error_at_start(Raw(body=body), retries=1)


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_refusal_that_concerns_every_request_stops_them_all(status):
    with ScriptedServer(lambda _: status) as server:
        usage = Usage()

        async def go():
            client = ChatClient(GradeOptions(url=server.url), usage)
            await client.start()
            for _ in range(3):
                with pytest.raises(GraderError, match=str(status)):
                    await client.complete(HELLO, [])
            await client.close()

        asyncio.run(go())
    assert len(server.bodies) == usage.requests == 1


def test_a_server_that_is_not_there_is_one_error_at_once():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/v1"
        with pytest.raises(GraderError) as caught:
            talk(url)
    assert str(caught.value).startswith(f"{url}: cannot be reached (")
    assert "\n" not in str(caught.value)


def test_a_host_that_is_not_there_is_one_error_at_once():
    with pytest.raises(GraderError, match="cannot be reached"):
        talk("http://no-such-host.invalid/v1")


@pytest.mark.parametrize(
    "url",
    [
        "localhost:8000",
        "ftp://host/v1",
        "http://",
        "http://host:x/v1",
        "http://h:99999",
        "http://[",
    ],
)
def test_a_url_that_is_none_is_refused(url):
    with pytest.raises(OptionError, match=r"--grader-url: got .*, expected http://HOST:PORT/v1"):
        talk(url)


@pytest.mark.parametrize("status", [408, 409, 429, 500, 503])
def test_what_may_pass_is_tried_again(status):
    with ScriptedServer(in_turn(status, status, message("hi"))) as server:
        _, [reply], usage, naps = talk(server.url)
    assert reply.content == "hi"
    assert (usage.requests, usage.retries) == (3, 2)
    assert 0.25 <= naps[0] <= 0.5 <= naps[1] <= 1.0


@pytest.mark.parametrize(
    "body", ["", "{oops", "null", "[]", "{}", '{"choices": []}', '{"choices": [{"index": 0}]}']
)
def test_an_answer_that_is_none_is_tried_again(body):
    with ScriptedServer(in_turn(Raw(body=body), message("hi"))) as server:
        _, [reply], _, naps = talk(server.url)
    assert reply.content == "hi"
    assert len(naps) == 1


def test_a_server_that_keeps_failing_is_given_up_with_the_reason():
    with ScriptedServer(lambda _: 500) as server:
        with pytest.raises(UngradedError, match=r"HTTP 500: scripted 500, 3 attempts"):
            talk(server.url, retries=2)
        assert len(server.bodies) == 3


def test_no_retries_means_one_attempt():
    with ScriptedServer(lambda _: 500) as server:
        with pytest.raises(UngradedError):
            talk(server.url, retries=0)
        assert len(server.bodies) == 1


def test_a_connection_that_breaks_is_tried_again_then_given_up():
    def hang_up(_):
        raise ConnectionAbortedError

    with ScriptedServer(hang_up) as server:
        with pytest.raises(UngradedError, match=r"no answer .* 2 attempts"):
            talk(server.url, retries=1)
        assert len(server.bodies) == 2


def test_a_slow_answer_is_a_time_out():
    done = threading.Event()

    def slow(_):
        done.wait(5)
        return message("late")

    with ScriptedServer(slow) as server:
        with pytest.raises(UngradedError, match=r"nothing within 0\.2 s, 2 attempts"):
            talk(server.url, retries=1, request_timeout=0.2)
        done.set()


def test_a_wait_that_the_server_asks_for_is_kept():
    busy = Raw(429, "{}", {"retry-after": "7"})
    until = Raw(503, "{}", {"retry-after": formatdate(time.time() + 60, usegmt=True)})
    odd = Raw(429, "{}", {"retry-after": "soon"})
    with ScriptedServer(in_turn(busy, until, odd, message("hi"))) as server:
        *_, naps = talk(server.url)
    assert 7.25 <= naps[0] <= 7.5
    assert 58 <= naps[1] <= 61
    assert 1.0 <= naps[2] <= 2.0


def test_a_date_that_is_none_is_no_wait():
    odd = Raw(429, "{}", {"retry-after": "Mon, 01 Jan 2024 00:00:00 +99999999999999"})
    with ScriptedServer(in_turn(odd, message("hi"))) as server:
        *_, naps = talk(server.url)
    assert naps[0] <= 0.5


@pytest.mark.parametrize(
    "answer",
    [
        b"\x8bF&\xdb9\r\n\r\n",
        b"HTTP/1.1 banana\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n{}",
        b"HTTP/1.1 200 OK\r\nx: " + b"y" * 100_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{}",
        b"",
    ],
)
def test_what_is_no_http_is_a_failure_that_may_pass(answer):
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer_all():
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listening.accept()
                    with connection:
                        connection.recv(65536)
                        connection.sendall(answer)

        thread = threading.Thread(target=answer_all, daemon=True)
        thread.start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/v1"

        async def go():
            client = ChatClient(GradeOptions(url=url, model="m", retries=1), Usage(), Naps())
            try:
                await client.complete(HELLO, [])
            finally:
                await client.close()

        with pytest.raises(UngradedError, match=r"no answer .* 2 attempts") as caught:
            asyncio.run(go())
        assert len(str(caught.value)) < 400
        listening.shutdown(socket.SHUT_RDWR)
    thread.join(5)


def test_a_wait_without_reason_is_not_kept():
    with ScriptedServer(lambda _: Raw(429, "{}", {"retry-after": "86400"})) as server:
        with pytest.raises(UngradedError, match="again in 86400 s"):
            talk(server.url)
        assert len(server.bodies) == 1


def test_jitter_follows_the_seed():
    def naps_of(seed):
        with ScriptedServer(in_turn(500, 500, 500, message("hi"))) as server:
            return talk(server.url, seed=seed)[3]

    assert naps_of(1) == naps_of(1) != naps_of(2)


def test_a_request_that_is_refused_is_not_tried_again():
    with ScriptedServer(lambda _: 400) as server:
        with pytest.raises(UngradedError, match="server refused the request: HTTP 400: scripted"):
            talk(server.url)
        assert len(server.bodies) == 1


@pytest.mark.parametrize("wanted", ["max_tokens", "max_completion_tokens"])
def test_the_bound_on_output_goes_by_the_name_that_the_server_knows(wanted):
    names = {"max_tokens", "max_completion_tokens"}

    def picky(body):
        [given] = names & set(body)
        if given == wanted:
            return message("hi")
        return Raw(400, f'{{"error": {{"message": "no {given}, use {wanted}"}}}}')

    with ScriptedServer(picky) as server:
        _, replies, usage, naps = talk(server.url, number=3)
    assert len(replies) == 3
    # Once found, the name stays.
    assert len(server.bodies) == 3 + (wanted != "max_tokens")
    assert (usage.retries, naps) == (0, [])


def test_the_name_of_the_bound_can_change_back():
    asked = []

    def fickle(body):
        asked.append("max_tokens" if "max_tokens" in body else "max_completion_tokens")
        known = "max_completion_tokens" if len(asked) <= 2 else "max_tokens"
        return message("hi") if known in body else Raw(400, f'{{"message": "no {asked[-1]}"}}')

    with ScriptedServer(fickle) as server:
        talk(server.url, number=2)
    assert asked == ["max_tokens", *["max_completion_tokens"] * 2, "max_tokens"]


@pytest.mark.parametrize(
    ("environment", "key"),
    [
        ({"GAGAR_GRADER_API_KEY": "ours", "OPENAI_API_KEY": "theirs"}, "ours"),
        ({"OPENAI_API_KEY": "theirs"}, "theirs"),
        ({}, "EMPTY"),
    ],
)
def test_the_key_comes_from_the_environment(monkeypatch, environment, key):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with ScriptedServer(lambda _: message("hi")) as server:
        talk(server.url)
    headers = {name.lower(): value for name, value in server.headers[0].items()}
    assert headers["authorization"] == f"Bearer {key}"


def test_a_key_that_no_header_can_carry_is_refused(monkeypatch):
    monkeypatch.setenv("GAGAR_GRADER_API_KEY", "“quoted”")
    with pytest.raises(OptionError, match="GAGAR_GRADER_API_KEY"):
        talk("http://127.0.0.1:9/v1")


def test_no_more_requests_than_allowed_are_in_flight():
    def slow(_):
        time.sleep(0.02)
        return message("hi")

    with ScriptedServer(slow) as server:

        async def go():
            client = ChatClient(GradeOptions(url=server.url, concurrency=3), Usage())
            await client.start()
            await asyncio.gather(*(client.complete(HELLO, []) for _ in range(15)))
            await client.close()

        asyncio.run(go())
    assert server.most_in_flight == 3
    assert len(server.bodies) == 15


def test_text_that_cannot_be_sent_back_becomes_visible():
    said = Raw(body='{"choices": [{"message": {"content": "a\\ud800b", "tool_calls": null}}]}')
    with ScriptedServer(lambda _: said) as server:
        _, [reply], *_ = talk(server.url)
    assert reply.content == "a\\ud800b"
    assert (reply.prompt_tokens, reply.completion_tokens) == (0, 0)


def test_arguments_that_the_server_parsed_already_are_text_again():
    call = '{"id": null, "function": {"name": "f", "arguments": {"a": 1}}}'
    said = Raw(body=f'{{"choices": [{{"message": {{"tool_calls": [{call}]}}}}]}}')
    with ScriptedServer(lambda _: said) as server:
        _, [reply], *_ = talk(server.url)
    assert [(c.id, c.name, c.arguments) for c in reply.tool_calls] == [("", "f", '{"a": 1}')]
