"""Names of places: a path, `-`, or a URI. All of this is text; nothing is opened.

A file:// URI is a path, told otherwise. A remote URI is SCHEME://HOST/PATH?OPTIONS, where `%20`
stands for a space, `*` in PATH for any name or part of one, and `**` for folders of any depth.
"""

import re
from urllib.parse import quote, unquote

from gagar_cli.errors import OptionError, OutputError

STDIO = "-"
REMOTE = ("s3://", "gs://", "gcs://", "hdfs://", "abfs://", "abfss://")
_FILE = "file://"
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_SECRET = re.compile(r"(?<=://)[^/@?]*:[^/@?]*@")
_LEGAL = "%/:@!$&'()*+,;=~?"  # of what may stand in a URI, unless a letter, digit, -, . or _


def is_remote(place: str) -> bool:
    """Whether a place is on no file system of this machine."""
    return place.startswith(REMOTE)


def local(place: str) -> str:
    """Return a file:// URI as the path that it means, and any other place as it is.

    Schemes that nobody here knows, and files on other hosts, raise OptionError.
    """
    if place.startswith(_FILE):
        host, slash, path = place.removeprefix(_FILE).partition("/")
        path = unquote(slash + path, errors="surrogateescape")
        if host not in {"", "localhost"} or not path or "\0" in path:
            raise OptionError(place, "is no file of this machine, expected file:///PATH")
        return path
    scheme = _SCHEME.match(place)
    if scheme and not is_remote(place):
        raise OptionError(
            place,
            f"got {scheme[0]}, expected a path, s3://, gs://, hdfs:// or file://",
            "s3://" + place[scheme.end() :] if scheme[0] in {"s3a://", "s3n://"} else "see --help",
        )
    return place


def shown(place: str) -> str:
    """Return a place, or a text that names some, as it may be told: without keys in a URI."""
    return _SECRET.sub("***@", place)


def encoded(uri: str) -> str:
    """Return a remote URI with all that may not stand in one, such as spaces, percent-encoded."""
    return quote(uri, safe=_LEGAL, errors="surrogateescape")


def with_option(uri: str, option: str, value: str) -> str:
    """Return a remote URI with an option, unless it has that already."""
    base, _, options = uri.partition("?")
    if any(given.startswith(f"{option}=") for given in options.split("&")):
        return uri
    return f"{base}?{options}{'&' * bool(options)}{option}={value}"


def within(uri: str, name: str) -> str:
    """Return the URI of what has a name, which may hold slashes, under a remote URI."""
    base, question, options = uri.partition("?")
    return f"{base.rstrip('/')}/{quote(name, errors='surrogateescape')}{question}{options}"


def split_glob(uri: str) -> tuple[str, re.Pattern[str] | None]:
    """Split a remote URI at its first wildcard.

    Returns the URI of the folder above, and what the names of objects below it match, None without
    a wildcard.
    """
    base, question, options = uri.partition("?")
    if "*" not in base:
        return uri, None
    folder = base[: base.index("*")].rpartition("/")[0]
    pattern = re.escape(unquote(base[len(folder) + 1 :].replace("*", "\0"))).replace("\0", "*")
    names = pattern.replace("**/", "(?:[^/]+/)\0").replace("*", "[^/]*").replace("\0", "*")
    return f"{folder}{question}{options}", re.compile(names)


def beside(uri: str, end: str) -> str:
    """Return `<stem><end>` beside a remote URI; a glob's stem is the folder above it.

    A whole bucket has nothing beside it, and raises OutputError.
    """
    folder, _ = split_glob(uri)
    base, question, options = folder.partition("?")
    base = base.rstrip("/")
    if "/" not in base.partition("://")[2]:
        raise OutputError(shown(uri), "has no place beside it for the output", "name an -o")
    return f"{base.removesuffix('.parquet')}{end}{question}{options}"


def same_text(uri: str) -> str:
    """Return a remote URI so that two of the same place are equal: no keys, no options, no %."""
    return unquote(_SECRET.sub("", uri).partition("?")[0]).rstrip("/")
