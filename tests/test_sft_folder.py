from pathlib import Path

import pytest

from gagar_cli.errors import OutputError
from gagar_cli.sft.folder import whole_folder


@pytest.fixture
def old(tmp_path):
    """Make a folder that may be replaced."""
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "export.json").write_text("old")
    return folder


def replace(folder, text="new"):
    with whole_folder(str(folder), "export.json", overwrite=True) as new:
        (new / "export.json").write_text(text)


def only(folder):
    """Return the text of the one file of the one folder that is there."""
    assert [path.name for path in folder.parent.iterdir()] == ["out"]
    [file] = folder.iterdir()
    return file.read_text()


def test_a_folder_is_replaced_as_a_whole(old):
    replace(old)
    assert only(old) == "new"


def test_a_link_stays_one(old, tmp_path):
    real = tmp_path.parent / f"{tmp_path.name}-real"
    old.rename(real)
    old.symlink_to(real)
    replace(old)
    assert old.is_symlink()
    assert (real / "export.json").read_text() == "new"


def fail_in_the_block(folder, problem):
    with whole_folder(str(folder), "export.json", overwrite=True) as new:
        (new / "train.jsonl").write_text("half")
        raise problem


def test_a_failure_in_the_block_leaves_what_was_there(old):
    with pytest.raises(KeyError):
        fail_in_the_block(old, KeyError())
    assert only(old) == "old"


def test_a_disk_error_is_an_output_error_that_leaves_what_was_there(old):
    with pytest.raises(OutputError, match="No space left"):
        fail_in_the_block(old, OSError(28, "No space left on device"))
    assert only(old) == "old"


def test_the_old_folder_comes_back_where_the_new_one_cannot_take_its_place(old, monkeypatch):
    rename = Path.rename

    def renamed(path, target):
        if path.name.endswith(".tmp"):
            raise OSError(5, "Input/output error")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", renamed)
    with pytest.raises(OutputError, match="Input/output error"):
        replace(old)
    assert only(old) == "old"
