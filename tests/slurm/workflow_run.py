"""Snakemake in a checkout, with the profile of the test cluster, watched while it runs."""

import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from one_node import OneNode, job_processes
from tiny_tier import TIER


@dataclass(frozen=True)
class JobProcess:
    """The program of a rule inside a job of the cluster."""

    pid: int
    slurm_job: str
    device: str | None
    python: str


def change_profile(checkout: Path, rule: str, **wanted: Any) -> None:
    """Change what a rule asks for in a checkout's profile; ``gpu_model`` is what all rules ask for."""
    path = checkout / "profiles" / "slurm-test" / "config.yaml"
    settings = yaml.safe_load(path.read_text())
    if "gpu_model" in wanted and wanted.pop("gpu_model") is None:
        settings["default-resources"].pop("gpu_model", None)
    settings["set-resources"][rule] = {**settings["set-resources"][rule], **wanted}
    path.write_text(yaml.safe_dump(settings))


class WorkflowRun:
    """One run of the workflow of a checkout, in the background, with all that it prints in ``log``."""

    def __init__(self, checkout: Path, *targets: str, options: tuple[str, ...] = ()) -> None:
        self.checkout = checkout
        self.log = checkout / f"run{len(list(checkout.glob('run*.log')))}.log"
        # Timings take a lock in the temporary folder of the machine, which other programs of the project hold too.
        scratch = checkout / "tmp"
        scratch.mkdir(exist_ok=True)
        # A shell's background job ignores interrupts, and so would all that it starts: tests may run in one.
        command = ["env", "--default-signal=INT", sys.executable, "-m", "snakemake"]
        command += ["--workflow-profile", "profiles/slurm-test", "--nocolor"]
        command += ["--config", f"tier={TIER}", "measurements=fresh"]
        with self.log.open("w") as out:
            self.process = subprocess.Popen(
                [*command, *options, "--", *targets],
                cwd=checkout, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                env={**os.environ, "TMPDIR": str(scratch), "PYTHONDONTWRITEBYTECODE": "1"},
            )  # fmt: skip

    @property
    def text(self) -> str:
        """Return what was printed so far."""
        return self.log.read_text(errors="replace")

    @property
    def finished(self) -> set[str]:
        """Return the rules that ended well, by name."""
        return set(re.findall(r"^Finished jobid: \d+ \(Rule: (\w+)\)", self.text, re.M))

    @property
    def submitted(self) -> list[str]:
        """Return the ids of the jobs that were submitted, first to last."""
        return re.findall(r"has been submitted with SLURM jobid (\d+)", self.text)

    def jobs(self, cluster: OneNode, rule: str | None = None) -> list[dict[str, str]]:
        """Return what Slurm says of the jobs of this run, of one rule or of all, first to last."""
        known = cluster.jobs()
        found = [known[number] for number in self.submitted if number in known]
        return [job for job in found if rule is None or job["Comment"].startswith(f"rule_{rule}_wildcards")]

    def programs(self, rule: str) -> list[JobProcess]:
        """Return the running programs of a rule inside jobs of this run."""
        found = []
        for pid, environment in job_processes().items():
            try:
                words = (Path("/proc") / str(pid) / "cmdline").read_bytes().decode().split("\0")
                is_here = (Path("/proc") / str(pid) / "cwd").resolve() == self.checkout
            except OSError:
                continue
            if is_here and f"scripts/{rule}.py" in words[1:2]:
                device = environment.get("CUDA_VISIBLE_DEVICES")
                found.append(JobProcess(pid, environment["SLURM_JOB_ID"], device, words[0]))
        return found

    def freeze(self, rule: str) -> None:
        """Stop the program of a rule once it has said something, as an engine that hangs would stop."""
        log = self.checkout / "logs" / TIER / f"{rule}.log"
        while not (log.exists() and log.stat().st_size and self.programs(rule)):
            if self.process.poll() is not None:
                return
            time.sleep(0.2)
        for program in self.programs(rule):
            os.kill(program.pid, signal.SIGSTOP)

    def interrupt(self, *, timeout_s: float = 120) -> int:
        """Do as a person at the terminal does who wants no more of it, and return the exit code.

        Jobs are cancelled at once; Snakemake ends at its next look at the queue, and these become rarer with time.
        """
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(timeout=timeout_s)

    def wait(self, *, timeout_s: float) -> int:
        """Return the exit code once the run is over."""
        return self.process.wait(timeout=timeout_s)

    def end(self) -> None:
        """End the run if it still goes on; its jobs with it."""
        if self.process.poll() is None:
            try:
                self.interrupt()
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
