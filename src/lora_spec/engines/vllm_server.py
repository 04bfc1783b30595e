"""A vLLM OpenAI server on the loopback interface: started, waited for, watched and ended."""

import shutil
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from lora_spec.engines.limited_process import end_group, log_tail, start_in_group
from lora_spec.engines.server_options import ServerOptions, server_command, server_environment
from lora_spec.errors import EngineError

_POLL_S = 0.5
_ANSWER_S = 5.0


class VllmServer:
    """One server process; leaving the ``with`` block ends it and all that it started.

    Parameters
    ----------
    log
        File for all that the server prints.
    start_timeout_s
        Seconds until it must answer.

    Raises
    ------
    EngineError
        It ended or did not answer in time; the message holds the last lines of its log.
    """

    def __init__(self, options: ServerOptions, *, log: Path, start_timeout_s: float = 300.0) -> None:
        self.options = options
        self._log = log
        self._start_timeout_s = start_timeout_s
        self._metrics_dir: tempfile.TemporaryDirectory[str] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0
        self.start_s = 0.0

    def __enter__(self) -> "VllmServer":
        self._metrics_dir = tempfile.TemporaryDirectory(prefix="lora-spec-metrics-")
        self.port = _free_port()
        started = time.monotonic()
        try:
            self._process = start_in_group(
                [*_ending_with_us(), *server_command(self.options, port=self.port)],
                log=self._log,
                environment=server_environment(self.options, metrics_dir=Path(self._metrics_dir.name)),
            )
            self._wait_until_ready(started + self._start_timeout_s)
        except BaseException:
            self.stop()
            raise
        self.start_s = time.monotonic() - started
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def base_url(self) -> str:
        """Return the address of the server, without a path."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """Return the process that leads the server's group."""
        return self._running().pid

    def is_alive(self) -> bool:
        """Return whether the server's leading process still runs."""
        return self._process is not None and self._process.poll() is None

    def metrics_text(self) -> str:
        """Return what ``/metrics`` says.

        Raises
        ------
        EngineError
            The server does not answer.
        """
        try:
            with urllib.request.urlopen(f"{self.base_url}/metrics", timeout=_ANSWER_S) as answer:
                return answer.read().decode()
        except (OSError, ValueError) as err:
            raise EngineError(f"the server at {self.base_url} gives no metrics ({err}); see {self._log}") from err

    def stop(self) -> None:
        """End the server, asked first and then killed; nothing of its group is left."""
        if self._process is not None:
            end_group(self._process)
            self._process = None
        if self._metrics_dir is not None:
            self._metrics_dir.cleanup()
            self._metrics_dir = None

    def is_answering(self) -> bool:
        """Return whether the server says that its engine is well; False too where it says nothing."""
        return self._answers()

    def _running(self) -> "subprocess.Popen[bytes]":
        if self._process is None:
            raise EngineError("the server is not running; enter it with a with statement")
        return self._process

    def _wait_until_ready(self, deadline_s: float) -> None:
        while not self._answers():
            code = self._running().poll()
            if code is not None or time.monotonic() > deadline_s:
                how = f"ended with {code}" if code is not None else f"gave no answer in {self._start_timeout_s:g} s"
                lines = "\n".join(log_tail(self._log, 12))
                raise EngineError(f"the vLLM server {how}; the end of {self._log}:\n{lines}")
            time.sleep(_POLL_S)

    def _answers(self) -> bool:
        with (
            suppress(OSError, urllib.error.URLError),
            urllib.request.urlopen(f"{self.base_url}/health", timeout=_ANSWER_S) as answer,
        ):
            return answer.status == 200
        return False


def _ending_with_us() -> list[str]:
    """Return the words that let the kernel end the server when this process is killed before it can (Linux)."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "TERM", "--"] if setpriv else []


def _free_port() -> int:
    """Return a port that was free a moment ago; the server says so in its log where another program was quicker."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
