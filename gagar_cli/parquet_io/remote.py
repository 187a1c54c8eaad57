"""What a remote URI leads to, through pyarrow.fs: objects to read, and objects to write.

The first contact with a server is short, since those that nobody answers would otherwise be tried
again for minutes; what follows has the patience of Arrow's own defaults.
"""

import os
import re
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Any
from urllib.parse import parse_qsl, unquote, urlsplit

import pyarrow as pa

from gagar_cli import uris
from gagar_cli.errors import GagarError, OutputError, SourceError

THREADS = 16  # requests at once, where there are many objects
_SECONDS = 3  # to connect, and until an answer begins, at the first contact
_TRIES = 2
_GCS_SECONDS = 60  # of retrying; its own default is a quarter of an hour
_SMALL = 4 << 20  # what S3 takes in one request of Arrow's
_CHUNK = 32 << 20  # what an upload holds in memory; it is sent in several parts at once

# What servers and libraries say, what it means, and what to do about it.
_MEANINGS = (
    (
        r"OAuth2|DefaultAzureCredential|UNAUTHENTICATED",
        "there are no credentials for it",
        "log in (gcloud auth application-default login, az login), or gs://anonymous@BUCKET/…",
    ),
    (
        r"NETWORK_CONNECTION|CURL error|[Cc]ould not resolve|Could not connect",
        "no server answers there",
        "check the network and the endpoint (AWS_ENDPOINT_URL, or ?endpoint_override=HOST:PORT)",
    ),
    (r"NO_SUCH_BUCKET|NoSuchBucket", "there is no such bucket", "check the name of the bucket"),
    (
        r"INVALID_ACCESS_KEY_ID|SIGNATURE|UNRECOGNIZED_CLIENT|MISSING_AUTH|TOKEN|Token",
        "the server does not accept these credentials",
        "check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE",
    ),
    (
        r"ACCESS_DENIED|PERMISSION_DENIED|Permission denied|HTTP status 403",
        "these credentials do not allow it",
        "check what they may do there, and AWS_ACCESS_KEY_ID or AWS_PROFILE",
    ),
    (
        r"HTTP status 301|PERMANENT_REDIRECT|PermanentRedirect",
        "the bucket is in another region",
        "?region=REGION, or none, which finds it",
    ),
    (
        r"SLOW_DOWN|SERVICE_UNAVAILABLE|INTERNAL_FAILURE|HTTP status 5|UNAVAILABLE",
        "the server fails again and again",
        "try again later",
    ),
    (
        r"Unable to load lib(jvm|hdfs)",
        "needs Java and Hadoop's libhdfs on this machine",
        "install both, and set JAVA_HOME, HADOOP_HOME and CLASSPATH",
    ),
)
_DETAIL = re.compile(
    r"(?:curlCode: \d+,|CURL error \[\d+\]=|operation:(?! curl)) *"
    r"([^;({]+?)(?: error_info| *[;({.]|$)"
)


@dataclass(frozen=True, slots=True)
class Object:
    """An object that was found: the URI that opens it alone, and what opens it."""

    uri: str
    system: Any
    path: str

    def open(self) -> pa.NativeFile:
        """Open it for reading."""
        return self.system.open_input_file(self.path)


def meaning(error: Exception) -> tuple[str, str] | None:
    """Return what an error of a remote file system means, and what to do; None for any other."""
    text = re.sub(r"'[^']*'", "", _first_line(error))  # names of objects mean nothing
    for pattern, problem, step in _MEANINGS:
        if re.search(pattern, text):
            said = [words for words in _DETAIL.findall(text) if words != "No response body"]
            return f"{problem} ({said[-1]})" if said else problem, step
    return None


def _first_line(error: Exception) -> str:
    return uris.shown(str(error).strip().split("\n", 1)[0])[:300].rstrip(". ")


@contextmanager
def telling(kind: type[GagarError], uri: str) -> Iterator[None]:
    """Turn what Arrow raises about a remote URI into one line."""
    try:
        yield
    except (pa.ArrowException, OSError, ValueError) as error:
        told = meaning(error) or (_first_line(error) or type(error).__name__, "")
        raise kind(uris.shown(uri), *told) from error


def find_objects(uri: str) -> list[Object]:
    """Find an object, all *.parquet under a prefix, or all that a glob names.

    In the order of folders: by each part of the name. Below the prefix, or the folder above the
    wildcard, names that begin with `.` or `_` are left out. Nothing found raises SourceError.
    """
    from pyarrow.fs import FileSelector, FileType  # noqa: PLC0415  loads S3, of use only here

    folder, pattern = uris.split_glob(uri)
    with telling(SourceError, uri):
        system, path = reached(folder)
        kind = FileType.Directory if pattern else info(system, path).type
        if kind == FileType.File:
            return [Object(uri, system, path)]
        listed = system.get_file_info(FileSelector(path, recursive=True, allow_not_found=True))
    names = [name_below(entry.path, path) for entry in listed if entry.is_file]
    chosen = [
        name.split("/")
        for name in names
        if (pattern.fullmatch(name) if pattern else name.endswith(".parquet"))
        and not re.search(r"(^|/)[._]", name)
    ]
    if not chosen:
        missing = kind == FileType.NotFound or pattern
        raise SourceError(
            uris.shown(uri),
            "no such object, expected Parquet" if missing else "no *.parquet object under it",
            "check the name",
        )
    return [
        Object(uris.within(folder, "/".join(name)), system, f"{path.rstrip('/')}/{'/'.join(name)}")
        for name in sorted(chosen)
    ]


def name_below(path: str, folder: str) -> str:
    """Return the name of what was listed under a folder."""
    return path[len(folder.rstrip("/")) + 1 :]


def read_text(place: str) -> str:
    """Read a path or a URI as UTF-8 text; raises as Path.read_text does, for a URI SourceError."""
    place = uris.local(place)
    if not uris.is_remote(place):
        return Path(place).read_text(encoding="utf-8")
    with telling(SourceError, place):
        system, path = reached(place)
        with system.open_input_stream(path) as stream:
            content = bytes(stream.read())
    return content.decode("utf-8")


def check_object(uri: str) -> None:
    """Raise OutputError where no object can be written, as far as reading can tell.

    Whether credentials may write is known to the server alone; those that it does not know at all
    are refused here.
    """
    from pyarrow.fs import FileType  # noqa: PLC0415

    base = uri.partition("?")[0]
    if "/" not in base.partition("://")[2] or base.endswith("/"):
        raise OutputError(uris.shown(uri), "is a folder, expected a name in it", "name another -o")
    with telling(OutputError, uri):
        system, path = reached(uri)
        try:
            kind = info(system, path).type
        except PermissionDeniedError:
            return  # credentials that may write need not be able to read
    if kind == FileType.Directory:
        raise OutputError(uris.shown(uri), "is a folder, expected a file name", "name another -o")


@contextmanager
def uploaded(uri: str) -> Iterator[IO[bytes]]:
    """Lend a temporary file of this machine; it becomes the object when the block ends well."""
    with tempfile.TemporaryFile(prefix="gagar-upload-") as local:  # gone with a killed process
        yield local
        upload(local, uri)


def upload(file: IO[bytes], uri: str) -> None:
    """Copy a file that is open here to a remote URI, all of it or nothing; OutputError where not.

    An interrupt waits for the end of it: closed early, a stream of Arrow's would leave half an
    object under its whole name, and there is no way to give one up.
    """
    with ThreadPoolExecutor(1) as pool:  # signals reach the main thread alone
        pool.submit(_send, file, uri).result()


def _send(file: IO[bytes], uri: str) -> None:
    with telling(OutputError, uri):
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        if uri.startswith("s3://") and size < _SMALL:
            # One request, which leaves no parts behind. Larger ones must not be opened late: where
            # their first part fails, Arrow writes an empty object when it closes them.
            uri = uris.with_option(uri, "allow_delayed_open", "true")
        system, path = reached(uri)
        final = path
        if system.type_name == "hdfs":  # shows files while they are written, but can rename them
            folder, _, name = path.rpartition("/")
            path = f"{folder}/.{name}.gagar.tmp"
        with system.open_output_stream(path) as stream:
            while chunk := file.read(_CHUNK):
                stream.write(chunk)
                stream.flush()  # else Arrow holds in memory all that a slow server has yet to take
        if path != final:
            with suppress(FileNotFoundError):
                system.delete_file(final)
            system.move(path, final)


class PermissionDeniedError(OSError):
    """The credentials are known, but do not allow what was asked."""


def info(system: Any, path: str) -> Any:  # noqa: ANN401  pyarrow has no types
    """Ask for a file's kind; a refusal without words is asked again in a way that has some."""
    from pyarrow.fs import FileSelector  # noqa: PLC0415

    try:
        return system.get_file_info(path)
    except OSError as error:
        if "ACCESS_DENIED" not in str(error):
            raise
        nothing = f"{path.partition('/')[0]}/.gagar-nothing"
        try:
            system.get_file_info(FileSelector(nothing, allow_not_found=True))
        except OSError as reason:
            if "ACCESS_DENIED" not in str(reason):
                raise
        raise PermissionDeniedError(str(error)) from error


def reached(uri: str) -> tuple[Any, str]:
    """Return the file system of a URI and the path in it, once its server has answered.

    What is wrong raises as Arrow does it: OSError, ValueError; use `telling`.
    """
    base, question, options = uris.encoded(uri).partition("?")
    scheme, _, rest = base.partition("://")
    host, _, name = rest.partition("/")
    if scheme != "hdfs" and not host.rpartition("@")[2]:
        raise ValueError(f"has no bucket, expected {scheme}://BUCKET/NAME")
    system, root = _system(f"{scheme}://{host}/{question}{options}")
    name = unquote(name, errors="surrogateescape").rstrip("/")
    return system, f"{root.rstrip('/')}/{name}" if name else root


@cache
def _system(place: str) -> tuple[Any, str]:
    """Return the file system of a bucket or a name node, and its root."""
    from pyarrow.fs import FileSystem  # noqa: PLC0415

    if place.startswith("s3:"):
        # With a region there is nothing to ask a server for yet: what is no URI shows at once.
        FileSystem.from_uri(uris.with_option(place, "region", "us-east-1"))
        _greet_s3(place)
    elif place.startswith(("gs:", "gcs:")):
        _greet(uris.with_option(place, "retry_limit_seconds", str(_SECONDS)))
        place = uris.with_option(place, "retry_limit_seconds", str(_GCS_SECONDS))
    system, root = FileSystem.from_uri(place)
    return system, root


def _greet(place: str) -> None:
    """Raise OSError where nobody answers; a refusal of what is asked for is an answer."""
    from pyarrow.fs import FileSystem  # noqa: PLC0415

    system, path = FileSystem.from_uri(place)
    try:
        system.get_file_info(path)
    except OSError as error:
        if "UNAVAILABLE" in str(error):
            raise


def _greet_s3(place: str) -> None:
    """Raise OSError where no S3 server answers, or it has no such bucket."""
    from pyarrow.fs import AwsStandardS3RetryStrategy, FileType, S3FileSystem  # noqa: PLC0415

    parts = urlsplit(place)
    user, _, bucket = parts.netloc.rpartition("@")
    key, _, secret = user.partition(":")
    options = _endpoint() | dict(parse_qsl(parts.query))
    system = S3FileSystem(
        **{n: options[n] for n in ("endpoint_override", "scheme", "region") if n in options},
        **({"access_key": unquote(key), "secret_key": unquote(secret)} if secret else {}),
        connect_timeout=_SECONDS,
        request_timeout=_SECONDS,
        retry_strategy=AwsStandardS3RetryStrategy(max_attempts=_TRIES),
    )
    try:
        found = system.get_file_info(bucket).type
    except OSError as error:
        if "NETWORK_CONNECTION" in str(error):
            raise
        return  # an answer, such as that the bucket is in another region, or may not be listed
    if found == FileType.NotFound:
        raise FileNotFoundError(f"NO_SUCH_BUCKET during HeadBucket operation: {bucket}")


def _endpoint() -> dict[str, str]:
    """Return the S3 server of the environment, which Arrow itself reads for URIs alone."""
    url = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""
    scheme, _, address = url.rstrip("/").rpartition("://")
    return {"endpoint_override": address, "scheme": scheme or "https"} if address else {}
