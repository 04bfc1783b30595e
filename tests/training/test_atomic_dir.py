import os
import socket
import subprocess
import sys

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


def test_leftovers_of_dead_runs_go_and_those_of_living_ones_stay(tmp_path):
    dead = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True)
    for role in ("part", "old"):
        for pid in (dead.stdout.strip(), os.getppid()):
            (tmp_path / f".out.{role}-{socket.gethostname()}-{pid}-x").mkdir()
    with atomic_dir(tmp_path / "out"):
        pass
    rest = sorted(path.name for path in tmp_path.iterdir())
    assert len(rest) == 3
    assert all(f"-{os.getppid()}-" in name for name in rest[:2])


def test_a_kill_while_the_old_folder_is_deleted_leaves_the_new_one_whole(tmp_path):
    code = (
        "import os, shutil, sys; from pathlib import Path; from lora_spec.training import atomic_dir as room\n"
        "room.shutil.rmtree = lambda *_, **__: os._exit(9)\n"
        "with room.atomic_dir(Path(sys.argv[1])) as part: (part / 'new').write_text('x')"
    )
    out = tmp_path / "out"
    out.mkdir()
    for index in range(3):
        (out / str(index)).touch()
    killed = subprocess.run([sys.executable, "-c", code, str(out)], check=False)
    assert killed.returncode == 9
    assert [path.name for path in out.iterdir()] == ["new"]


@pytest.mark.parametrize("kind", ["file", "link"])
def test_a_file_or_a_link_is_not_replaced_by_a_folder(tmp_path, kind):
    (tmp_path / "there").mkdir()
    (tmp_path / "out").touch() if kind == "file" else (tmp_path / "out").symlink_to("there")
    with pytest.raises(NotADirectoryError, match="output folder"), atomic_dir(tmp_path / "out"):
        pass
