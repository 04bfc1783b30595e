"""The cluster itself: on loopback, with its devices, without a database."""

import subprocess

import pytest
from one_node import listening_addresses

pytestmark = pytest.mark.slurm


def test_the_daemons_listen_on_loopback_alone(cluster):
    assert listening_addresses()
    assert {address.partition(".")[0] for address in listening_addresses()} == {"127"}


def test_there_are_two_devices_and_no_accounting(cluster):
    shown = subprocess.run(["scontrol", "show", "node"], capture_output=True, text=True, check=True).stdout
    assert "Gres=gpu:fake:2" in shown
    asked = subprocess.run(["sacct", "--noheader"], capture_output=True, text=True, check=False)
    assert "accounting storage is disabled" in asked.stderr
