"""Git processes that stay answer as fresh ones do, whatever becomes of them."""

import os
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest
import repos

from gagar_cli.errors import SourceError
from gagar_cli.workspace import talking
from gagar_cli.workspace.store import ObjectStore
from gagar_cli.workspace.view import BASE

FILES = {f"d{n % 7}/e/f{n}.txt": f"text {n}\n" * n for n in range(60)} | {
    "big.txt": "x\n" * 300_000
}


@pytest.fixture
def scene(tmp_path):
    source, base = repos.make(tmp_path / "source", FILES)
    patch = repos.changed(source, {"d1/e/f1.txt": "end 0123\n\n", "new": "n\n"})
    return repos.opened(repos.build(tmp_path / "root", {"r": patch, "s": None}, source, base))


def waiting():
    return [talk for _, talk in talking.idle.waiting]


def test_a_process_that_was_killed_is_replaced(scene):
    workspace, labels = scene
    label = labels["r"]
    before = workspace.read(label, "new"), workspace.diff(BASE, label)
    assert waiting()
    for talk in waiting():
        os.kill(talk.process.pid, signal.SIGKILL)
        talk.process.wait()
    assert (workspace.read(label, "new"), workspace.diff(BASE, label)) == before


def test_many_threads_get_their_own_answers(scene):
    workspace, labels = scene
    paths = list(FILES) * 3
    with ThreadPoolExecutor(12) as pool:
        found = list(pool.map(lambda path: workspace.read(labels["s"], path), paths))
    assert found == [FILES[path].encode() for path in paths]
    assert len(waiting()) <= talking.MOST_IDLE


def test_what_was_stored_meanwhile_is_seen(scene):
    workspace, _ = scene
    store = ObjectStore(workspace.folder.parent / ".objects" / _store_name(workspace))
    workspace.read(BASE, "big.txt")
    oid = store.write_blobs({b"k": b"made just now\n"})[b"k"]
    assert store.blobs([oid]) == {oid: b"made just now\n"}


def _store_name(workspace):
    return next((workspace.folder.parent / ".objects").iterdir()).name


def test_more_questions_than_a_pipe_holds_are_answered(scene):
    workspace, _ = scene
    store = ObjectStore(workspace.folder.parent / ".objects" / _store_name(workspace))
    entries = store.entries(workspace.base_tree)
    oids = [entry.oid for entry in entries]
    absent = [f"{n:040x}" for n in range(5000)]
    assert store.present_blobs([*absent, *oids, *absent]) == store.blobs(oids)
    with pytest.raises(SourceError, match="got none in the repository"):
        store.blobs(absent)


def test_a_store_that_is_gone_is_an_error(tmp_path):
    store = ObjectStore(tmp_path / "none.git")
    with pytest.raises(SourceError):
        store.changes("1" * 40, "2" * 40)
    assert store.file("1" * 40, b"f") is None


def test_objects_that_are_no_trees_are_an_error(scene):
    workspace, _ = scene
    store = ObjectStore(workspace.folder.parent / ".objects" / _store_name(workspace))
    with pytest.raises(SourceError):
        store.diff(workspace.base_tree, "1" * 40)
    assert store.file("1" * 40, b"f") is None


def test_a_forked_process_asks_its_own(scene):
    workspace, labels = scene
    expected = workspace.read(labels["r"], "new")
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            os.write(writer, workspace.read(labels["r"], "new"))
        finally:
            os._exit(0)
    os.close(writer)
    os.waitpid(pid, 0)
    with os.fdopen(reader, "rb") as pipe:
        assert pipe.read() == expected
    assert workspace.read(BASE, "d2/e/f2.txt") == FILES["d2/e/f2.txt"].encode()
