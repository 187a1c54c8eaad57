"""A real S3 server, moto's, in a process of its own on this machine, for tests.

Run as a script: prints its port, which the system chooses, and ends when its standard input does.
It can be told to refuse some requests, or to hold them up: /trouble?method=PUT&text=x&seconds=2.
"""

import os
import subprocess
import sys
import time
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import parse_qsl

import boto3
from botocore.config import Config

BUCKET = "rollouts"
# Credentials of nobody; the settings of whoever runs the tests do not count.
KEYS = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
}


class S3Server:
    """A running server: its address, the environment that leads to it, and what it holds."""

    def __init__(self, port):
        self.address = f"127.0.0.1:{port}"
        self.url = f"http://{self.address}"
        self.options = f"?endpoint_override={self.address}&scheme=http"
        others = {k: v for k, v in os.environ.items() if not k.startswith("AWS_")}
        self.env = {**others, **KEYS, "AWS_ENDPOINT_URL": self.url}
        self._client = self._connect()
        self._client.create_bucket(Bucket=BUCKET)

    def _connect(self):
        return boto3.client(
            "s3",
            endpoint_url=self.url,
            aws_access_key_id="test",
            aws_secret_access_key="test",  # noqa: S106  of nobody
            region_name="us-east-1",
            config=Config(proxies={}, retries={"max_attempts": 0}),
        )

    def put(self, key, file):
        """Store a file, or bytes."""
        content = file if isinstance(file, bytes) else Path(file).read_bytes()
        self._client.put_object(Bucket=BUCKET, Key=key, Body=content)
        return f"s3://{BUCKET}/{key}"

    def get(self, key):
        """Return an object's bytes."""
        return self._client.get_object(Bucket=BUCKET, Key=key)["Body"].read()

    def keys(self, prefix=""):
        """Return the names of all objects under a prefix."""
        found = self._client.list_objects_v2(Bucket=BUCKET, Prefix=prefix).get("Contents", [])
        return [entry["Key"] for entry in found]

    def files(self, prefix=""):
        """Return the same, but for what Arrow puts in place of folders."""
        return [key for key in self.keys(prefix) if not key.endswith("/")]

    def uploads(self):
        """Return the names of all objects of which parts were sent, and no more."""
        found = self._client.list_multipart_uploads(Bucket=BUCKET).get("Uploads", [])
        return [entry["Key"] for entry in found]

    @contextmanager
    def troubling(self, method, text, seconds=None):
        """Refuse requests of a method that have a text in their target, or hold them up."""
        held = "" if seconds is None else f"&seconds={seconds}"
        self._tell(f"/trouble?method={method}&text={text}{held}")
        try:
            yield
        finally:
            self._tell("/trouble?")

    def troubled(self):
        """Return how many requests have been in trouble."""
        return int(self._tell("/troubled"))

    @contextmanager
    def checking_keys(self):
        """Refuse credentials that the server does not know, which are all."""
        self._tell("/moto-api/reset-auth", b"0")
        try:
            yield
        finally:
            self._tell("/moto-api/reset-auth", b"1000000000")

    def _tell(self, path, data=b""):
        connection = HTTPConnection(self.address)
        connection.request("POST", path, data)
        response = connection.getresponse()
        assert response.status == 200
        text = response.read()
        connection.close()
        return text


@contextmanager
def s3_server():
    """Lend a server with an empty bucket."""
    process = subprocess.Popen(
        [sys.executable, __file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        yield S3Server(int(process.stdout.readline()))
    finally:
        process.stdin.close()
        process.wait()
        process.stdout.close()


class Troubled:
    """The server's application, with requests that it refuses or holds up while it is told to."""

    def __init__(self, application):
        self._application = application
        self._what = {}
        self._count = 0

    def __call__(self, environ, start_response):
        path, query = environ["PATH_INFO"], environ["QUERY_STRING"]
        if path in {"/trouble", "/troubled"}:
            if path == "/trouble":
                self._what, self._count = dict(parse_qsl(query)), 0
            start_response("200 OK", [("Content-Type", "text/plain")])
            return [str(self._count).encode()]
        what = self._what
        if what and what["method"] == environ["REQUEST_METHOD"] and what["text"] in path + query:
            self._count += 1
            if "seconds" not in what:
                start_response("403 Forbidden", [("Content-Type", "application/xml")])
                return [b"<Error><Code>AccessDenied</Code><Message>as told</Message></Error>"]
            time.sleep(float(what["seconds"]))
        return self._application(environ, start_response)


if __name__ == "__main__":
    from threading import Thread

    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    application = Troubled(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, application, threaded=True)
    Thread(target=server.serve_forever, daemon=True).start()
    sys.stdout.write(f"{server.server_port}\n")
    sys.stdout.flush()
    sys.stdin.read()
    os._exit(0)
