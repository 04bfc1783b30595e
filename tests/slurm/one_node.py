"""A Slurm of one node on loopback with two devices that are none; nothing of it is left when it ends."""

import fcntl
import os
import secrets
import shutil
import signal
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

PACKAGES = "munge slurmctld slurmd slurm-client"
CLUSTER = "loraspectest"
_PORTS = (26817, 26818)
# The executor's job step drops SLURM_CONF from the environment, so this place cannot be chosen.
_CONF = Path("/etc/slurm")
_MARK = "# Written by LoRA-Spec's tests and removed at their end.\n"
_SBIN = f"{os.environ.get('PATH', '')}:/usr/local/sbin:/usr/sbin:/sbin"

# No cgroups (a container may have none): memory is watched by the accounting of each job's processes, which kills a
# step that is above its limit. No database: jobs are known for MinJobAge seconds, to squeue alone. slurmctld and slurmd
# listen on the address of the host's name and on no other.
_SLURM_CONF = """\
{mark}ClusterName={cluster}
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/ctld
SlurmdSpoolDir={folder}/d
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SlurmdParameters=config_overrides
GresTypes=gpu
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=1
JobAcctGatherParams=OverMemoryKill
JobCompType=jobcomp/none
MinJobAge=300
KillWait=2
ReturnToService=2
NodeName={host} NodeAddr=127.0.0.1 CPUs=16 RealMemory=512000 Gres=gpu:fake:2 State=UNKNOWN
PartitionName=cpu Nodes={host} Default=YES MaxTime=INFINITE State=UP
PartitionName=gpu Nodes={host} MaxTime=INFINITE State=UP
"""
_GRES_CONF = "{mark}NodeName={host} Name=gpu Type=fake File={folder}/gpu[0-1]\n"


def why_not() -> str | None:
    """Return why no cluster can be started here, None where one can."""
    if os.geteuid() != 0:
        return "needs root: slurmd starts jobs as their user"
    tools = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel", "srun")
    if missing := [tool for tool in tools if shutil.which(tool, path=_SBIN) is None]:
        return f"{', '.join(missing)} not installed: apt-get install {PACKAGES}"
    if not _is_on_loopback():
        return (
            f"{_host()} is no name of this machine's loopback, where alone the daemons may listen; add it to /etc/hosts"
        )
    if strange := [path for path in _conf_files() if path.exists() and not path.read_text().startswith(_MARK)]:
        return f"{strange[0]} is not of these tests: this machine belongs to a cluster"
    return None


@contextmanager
def alone() -> Iterator[bool]:
    """Say for a ``with`` block whether no other run has a cluster here: ports and configuration are there but once."""
    _CONF.mkdir(exist_ok=True)
    handle = os.open(_CONF, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        is_alone = True
    except BlockingIOError:
        is_alone = False
    try:
        yield is_alone
    finally:
        os.close(handle)


def _conf_files() -> tuple[Path, Path]:
    return _CONF / "slurm.conf", _CONF / "gres.conf"


def _host() -> str:
    return os.uname().nodename.split(".")[0]


def _is_on_loopback() -> bool:
    return _ask("getent", "ahostsv4", os.uname().nodename).startswith("127.")


def wait_for(is_true: Callable[[], object], what: str, *, timeout_s: float) -> None:
    """Return once something holds; AssertionError with its name where it does not in time."""
    end = time.monotonic() + timeout_s
    while not is_true():
        assert time.monotonic() < end, f"{what}: not within {timeout_s:.0f} s"
        time.sleep(0.1)


def _ask(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, timeout=30, check=False)
    return done.stdout if done.returncode == 0 else ""


class OneNode:
    """What tests ask of the running cluster."""

    def jobs(self) -> dict[str, dict[str, str]]:
        """Return every job that Slurm still knows, by id, with the fields that ``scontrol`` shows."""
        text = _ask("scontrol", "--details", "--oneliner", "show", "job")
        found = [dict(word.split("=", 1) for word in line.split() if "=" in word) for line in text.splitlines()]
        return {job["JobId"]: job for job in found if "JobId" in job}

    def queue(self) -> list[str]:
        """Return the ids of all jobs that wait, run or end."""
        return _ask("squeue", "--noheader", "--format=%i").split()


@contextmanager
def one_node() -> Iterator[OneNode]:
    """Start the cluster for a ``with`` block and end it, its jobs and its files with it."""
    folder = Path(tempfile.mkdtemp(prefix="lora-spec-slurm-"))
    daemons: list[subprocess.Popen[bytes]] = []
    try:
        _configure(folder)
        for command in _daemon_commands(folder):
            daemons.append(_start(command, folder))
            if command[0] == "munged":
                wait_for((folder / "munge.socket").exists, "munged", timeout_s=20)
        wait_for(lambda: "idle" in _ask("sinfo", "--noheader", "--format=%T"), "the node, idle", timeout_s=30)
        yield OneNode()
    finally:
        _end_jobs()
        for daemon in reversed(daemons):
            _end(daemon)
        _remove(folder)


def _configure(folder: Path) -> None:
    folder.chmod(0o755)
    for name in ("ctld", "d"):
        (folder / name).mkdir()
    key = folder / "munge.key"
    key.touch(0o600)
    key.write_bytes(secrets.token_bytes(1024))
    # Any character device passes for a GPU; these two are /dev/null and /dev/zero by another name.
    for index, minor in enumerate((3, 5)):
        os.mknod(folder / f"gpu{index}", stat.S_IFCHR | 0o666, os.makedev(1, minor))
    _CONF.mkdir(exist_ok=True)
    words = {"mark": _MARK, "cluster": CLUSTER, "host": _host(), "folder": folder, "ports": _PORTS}
    for path, text in zip(_conf_files(), (_SLURM_CONF, _GRES_CONF), strict=True):
        path.write_text(text.format(**words))


def _daemon_commands(folder: Path) -> list[list[str]]:
    names = {"key-file": "munge.key", "socket": "munge.socket", "pid-file": "munge.pid", "seed-file": "munge.seed"}
    places = [f"--{flag}={folder / name}" for flag, name in names.items()]
    # --force: munged would refuse a socket below a folder that others may write to, as /tmp is.
    munged = ["munged", "--foreground", "--force", f"--log-file={folder / 'munge.log'}", *places]
    # Under another name than these two, such as that of Debian's files, a daemon ignores its devices.
    return [munged, ["slurmctld", "-D", "-c"], ["slurmd", "-D", "-c"]]


def _start(command: list[str], folder: Path) -> subprocess.Popen[bytes]:
    # Should the tests be killed, the kernel ends the daemons.
    with (folder / f"{command[0]}.out").open("wb") as out:
        return subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *command],
            stdin=subprocess.DEVNULL, stdout=out, stderr=out, env={**os.environ, "PATH": _SBIN},
        )  # fmt: skip


def job_processes() -> dict[int, dict[str, str]]:
    """Return the environment of every process of the cluster's jobs, by process id."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*/environ"):
        try:
            words = entry.read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        environment = dict(word.split("=", 1) for word in words if "=" in word)
        if environment.get("SLURM_CLUSTER_NAME") == CLUSTER:
            found[int(entry.parent.name)] = environment
    return found


def listening_addresses() -> set[str]:
    """Return the IPv4 addresses on which slurmctld and slurmd listen."""
    found = set()
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        place, state = line.split()[1], line.split()[3]
        address, port = place.split(":")
        if state == "0A" and int(port, 16) in _PORTS:
            found.add(".".join(str(byte) for byte in reversed(bytes.fromhex(address))))
    return found


def leftovers() -> list[str]:
    """Return what is still there of a cluster that has ended: processes of its jobs, ports, configuration."""
    processes = [f"process {pid}" for pid in job_processes()]
    files = [str(path) for path in _conf_files() if path.exists()]
    return processes + sorted(listening_addresses()) + files


def _end_jobs() -> None:
    for job in _ask("squeue", "--noheader", "--format=%i").split():
        _ask("scancel", job)
    end = time.monotonic() + 20
    while _ask("squeue", "--noheader", "--format=%i").split() and time.monotonic() < end:
        time.sleep(0.2)
    for process in job_processes():
        os.kill(process, signal.SIGKILL)


def _end(daemon: subprocess.Popen[bytes]) -> None:
    daemon.terminate()
    try:
        daemon.wait(timeout=15)
    except subprocess.TimeoutExpired:
        daemon.kill()
        daemon.wait()


def _remove(folder: Path) -> None:
    for path in _conf_files():
        if path.exists() and path.read_text().startswith(_MARK):
            path.unlink()
    shutil.rmtree(folder, ignore_errors=True)
