"""Result files that nobody should have written: one line that names the file, and never a hang."""

import json
import os
from pathlib import Path

import pytest

from lora_spec.errors import ResultError
from lora_spec.results import (
    read_json,
    read_result,
    read_table_result,
    write_all_atomically,
    write_bytes_atomically,
    write_result,
)

ENVELOPE = (
    '{"schema_version": "1", "kind": "k", "evidence": "measured", "tier": "mini", "provenance": {}, "payload": %s}'
)


@pytest.mark.parametrize(
    "payload",
    [
        "NaN",
        "-Infinity",
        "1e400",
        "1" + "0" * 30,
        '{"a": 1, "a": 2}',
        "[" * 300 + "]" * 300,
        "[" * 100_000,
        r'"\ud800"',
    ],
    ids=["nan", "infinity", "overflow", "wide", "twice", "deep", "bottomless", "surrogate"],
)
def test_a_value_that_is_no_plain_json_is_refused(tmp_path, payload):
    path = tmp_path / "r.json"
    path.write_text(ENVELOPE % payload)
    with pytest.raises(ResultError, match=str(path)) as caught:
        read_result(path, "k")
    assert "\n" not in str(caught.value)


def test_bytes_that_are_no_text_are_refused(tmp_path):
    (tmp_path / "r.json").write_bytes(b'{"\xff": 1}')
    with pytest.raises(ResultError, match="not UTF-8"):
        read_json(tmp_path / "r.json")


@pytest.mark.parametrize("reader", [read_json, lambda path: read_table_result(path, "k")], ids=["json", "table"])
def test_what_is_no_regular_file_is_refused_at_once(tmp_path, reader):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to("fifo")
    for path in (tmp_path / "fifo", tmp_path / "link", Path("/dev/zero"), tmp_path, Path("a\0b")):
        with pytest.raises(ResultError, match="not a readable result"):
            reader(path)


def test_a_file_over_the_limit_is_refused_unread(tmp_path):
    with (tmp_path / "r.json").open("wb") as stream:
        stream.truncate(65 << 20)
    with pytest.raises(ResultError, match="larger than 64 MiB"):
        read_json(tmp_path / "r.json")


@pytest.mark.parametrize("change", [{"tier": ["mini"]}, {"provenance": None}])
def test_circumstances_of_another_type_are_refused(tmp_path, change):
    (tmp_path / "r.json").write_text(json.dumps(json.loads(ENVELOPE % "1") | change))
    with pytest.raises(ResultError, match="tier is no text or provenance no object"):
        read_result(tmp_path / "r.json", "k")


def test_an_output_never_replaces_what_is_no_file(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to("fifo")
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "fifo", tmp_path / "link", tmp_path / "folder", Path("/dev/null"), Path(), tmp_path / ".."):
        with pytest.raises(ResultError, match=r"replace|no name"):
            write_bytes_atomically(path, b"")
    assert (tmp_path / "fifo").is_fifo()


def test_of_several_outputs_none_is_written_if_one_cannot_be(tmp_path):
    (tmp_path / "b").mkdir()
    with pytest.raises(ResultError, match="folder"):
        write_all_atomically({tmp_path / "a": b"1", tmp_path / "b": b"2"})
    assert not (tmp_path / "a").exists()


def test_a_result_with_unusual_but_sound_text_is_read_back(tmp_path):
    write_result(
        tmp_path / "r.json", kind="k", evidence="measured", tier="mini", provenance={}, payload={"é\U0001f600": 2**62}
    )
    assert read_result(tmp_path / "r.json", "k").payload == {"é\U0001f600": 2**62}


def test_a_disk_that_is_full_changes_none_of_several_files_and_is_told_with_the_file(tmp_path, monkeypatch):
    for name in "ab":
        (tmp_path / name).write_bytes(b"old")
    synced = []

    def full(handle):
        synced.append(handle)
        if len(synced) == 2:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left") as told:
        write_all_atomically({tmp_path / "a": b"1", tmp_path / "b": b"2"})
    assert told.value.filename == str(tmp_path / "b")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"a": b"old", "b": b"old"}


def test_a_folder_that_cannot_be_made_changes_none_of_several_files(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(OSError, match="Not a directory"):
        write_all_atomically({tmp_path / "a": b"1", tmp_path / "file" / "b": b"2"})
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
