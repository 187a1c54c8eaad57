"""Make the tree that differs from another in some paths, from the folders on the way alone.

`git write-tree` would store all folders of the base again, since it must not see the source's.
"""

import hashlib
import os
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path

from gagar_cli.workspace.walking import entries_in

Put = tuple[bytes, str]  # mode and object id of what a path gets
_FOLDER = b"40000"


class TreeMaker:
    """Stores tree objects in the folder `made`; `read` gives the content of those there are.

    digits: of an object id.
    """

    def __init__(self, read: Callable[[str], bytes], made: Path, digits: int) -> None:
        """Take where to read and where to write."""
        self._read = read
        self._made = made
        self._digits = digits

    def changed(self, tree: str, changes: Iterable[tuple[bytes, Put | None]]) -> str:
        """Return the id of a tree with other files; None stands for one that is gone."""
        whole = [(path.split(b"/"), put) for path, put in changes]
        return self._folder(tree, whole) or self._stored(b"")

    def _folder(self, tree: str, changes: Iterable[tuple[list[bytes], Put | None]]) -> str | None:
        """Return the new tree of one folder, empty for a new one; None where nothing is left."""
        entries = dict(entries_in(self._read(tree), self._digits)) if tree else {}
        inner: dict[bytes, list[tuple[list[bytes], Put | None]]] = {}
        new: dict[bytes, Put] = {}
        for (name, *rest), put in changes:
            if rest:
                inner.setdefault(name, []).append((rest, put))
            elif put:
                new[name] = put
            else:
                entries.pop(name, None)
        # A file may take the place of a folder, and a folder that of a file, which is gone by now.
        for name, inside in inner.items():
            mode, oid = entries.pop(name, (b"", ""))
            if made := self._folder(oid if mode == _FOLDER else "", inside):
                entries[name] = _FOLDER, made
        entries |= new
        ordered = sorted(entries, key=lambda name: name + b"/" * (entries[name][0] == _FOLDER))
        content = b"".join(
            b"%s %s\0%s" % (entries[name][0], name, bytes.fromhex(entries[name][1]))
            for name in ordered
        )
        return self._stored(content) if content else None

    def _stored(self, content: bytes) -> str:
        """Store a tree object; return its id."""
        whole = b"tree %d\0%s" % (len(content), content)
        kind = hashlib.sha1 if self._digits == 40 else hashlib.sha256  # noqa: PLR2004
        oid = kind(whole).hexdigest()
        place = self._made / oid[:2] / oid[2:]
        if not place.exists():
            place.parent.mkdir(exist_ok=True)
            new = place.with_name(f"tmp_obj_{os.getpid()}_{os.urandom(8).hex()}")
            new.write_bytes(zlib.compress(whole, 1))
            new.chmod(0o444)
            new.rename(place)
        return oid
