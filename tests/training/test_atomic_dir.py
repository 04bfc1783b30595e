import pytest

from lora_spec.training.atomic_dir import atomic_dir


def test_the_directory_appears_only_when_the_block_ends(tmp_path):
    out = tmp_path / "deep" / "out"
    with atomic_dir(out) as part:
        (part / "file").write_text("whole")
        assert not out.exists()
    assert (out / "file").read_text() == "whole"
    assert [path.name for path in out.parent.iterdir()] == ["out"]


def test_a_failure_leaves_the_old_directory_and_nothing_else(tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "file").write_text("old")

    def fail():
        with atomic_dir(out) as part:
            (part / "file").write_text("half")
            raise RuntimeError("killed")

    with pytest.raises(RuntimeError, match="killed"):
        fail()
    assert (out / "file").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_finished_block_replaces_what_was_there(tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "stale").write_text("old")
    with atomic_dir(out) as part:
        (part / "file").write_text("new")
    assert [path.name for path in out.iterdir()] == ["file"]


def test_the_directory_and_its_files_are_as_readable_as_their_parent(tmp_path):
    tmp_path.chmod(0o755)
    with atomic_dir(tmp_path / "out") as part:
        (part / "file").touch(mode=0o600)
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "out" / "file").stat().st_mode & 0o777 == 0o644
