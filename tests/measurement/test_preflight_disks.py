"""A tier's disks are those that its folders lie on, links followed; one that cannot be written says why."""

from pathlib import Path

import pytest

from lora_spec.measurement.preflight.disks import held_gib, look_at_disks


def test_folders_of_one_file_system_are_one_disk_though_some_are_yet_to_be_made(tmp_path):
    (disk,) = look_at_disks([tmp_path / "results/paper", tmp_path, tmp_path / "resources/hub"])
    assert disk.folder == str(tmp_path)
    assert disk.free_gib > 0
    assert disk.why_not is None


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="no second file system to link to")
def test_a_folder_that_is_a_link_counts_where_it_leads(tmp_path):
    (tmp_path / "results").symlink_to("/dev/shm")
    disks = look_at_disks([tmp_path / "results" / "no-such-tier", tmp_path])
    assert [disk.folder for disk in disks] == ["/dev/shm", str(tmp_path)]


def test_a_disk_that_cannot_be_written_says_why():
    (disk,) = look_at_disks([Path("/proc/self")])
    assert disk.why_not


def test_a_file_in_place_of_a_folder_is_no_folder(tmp_path):
    (tmp_path / "results").write_text("")
    (disk,) = look_at_disks([tmp_path / "results" / "paper"])
    assert disk.folder == str(tmp_path)


def test_what_lies_there_is_counted_once_and_links_lead_nowhere(tmp_path):
    (tmp_path / "a/b").mkdir(parents=True)
    for name in ("a/one", "a/b/two"):
        with (tmp_path / name).open("wb") as stream:
            stream.truncate(1 << 30)
    (tmp_path / "a/b/again").symlink_to(tmp_path / "a/one")
    (tmp_path / "a/b/loop").symlink_to(tmp_path / "a")
    assert held_gib([tmp_path / "a", tmp_path / "a/b", tmp_path / "none"]) == pytest.approx(2, abs=1e-6)
