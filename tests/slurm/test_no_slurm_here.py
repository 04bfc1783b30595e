"""Where no cluster can be started, its tests say why."""

import os

import one_node
import pytest


def test_only_root_can_start_one(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert one_node.why_not().startswith("needs root")


def test_what_is_missing_is_named_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(one_node, "_SBIN", "/nowhere")
    assert "slurmctld" in one_node.why_not()
    assert one_node.why_not().endswith(f"apt-get install {one_node.PACKAGES}")


@pytest.mark.parametrize("name", ["slurm.conf", "gres.conf"])
def test_the_configuration_of_another_cluster_is_left_alone(monkeypatch, tmp_path, name):
    (tmp_path / name).write_text("ClusterName=theirs\n")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(one_node, "_CONF", tmp_path)
    monkeypatch.setattr(one_node.shutil, "which", lambda tool, path: tool)
    monkeypatch.setattr(one_node, "_is_on_loopback", lambda: True)
    assert "belongs to a cluster" in one_node.why_not()
    (tmp_path / name).write_text(one_node._MARK)
    assert one_node.why_not() is None


def test_one_run_at_a_time_has_a_cluster(monkeypatch, tmp_path):
    monkeypatch.setattr(one_node, "_CONF", tmp_path)
    with one_node.alone() as is_first_alone, one_node.alone() as is_second_alone:
        assert (is_first_alone, is_second_alone) == (True, False)
    with one_node.alone() as is_third_alone:
        assert is_third_alone
