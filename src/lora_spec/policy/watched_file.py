"""A policy file that is read again when it changes; what cannot be read never comes into force."""

import hashlib
import logging
from collections.abc import Collection
from pathlib import Path

from lora_spec.policy.policy_file import Policy, PolicyError, parse_policy, read_policy_bytes

_LOG = logging.getLogger("vllm.lora_spec.policy")  # below vLLM's own logger, so that its handlers show it

Stamp = tuple[int, int, int, int]


class WatchedPolicy:
    """The last good policy of one path.

    A file is looked at by its inode, size and times of change: a file that another one replaces by a rename is seen
    whole or not at all, and one written in place may be seen half, in which case it is refused until it changes again.
    Two writes within one tick of the file system's clock bear the same times, so what has changed is read once more at
    the next look.

    Parameters
    ----------
    poll_s
        Seconds between two looks at the file.
    """

    def __init__(
        self, path: Path, *, max_depth: int, known_adapters: Collection[str] | None = None, poll_s: float = 1.0
    ) -> None:
        self._path = path
        self._max_depth = max_depth
        self._known_adapters = known_adapters
        self._poll_s = poll_s
        self._next_look_s = 0.0
        self._seen: Stamp | str | None = "never looked"
        self._is_settled = False
        self._outcome: bytes | None = None  # digest of what was read, None where nothing could be
        self.policy: Policy | None = None
        self.num_loaded = 0
        self.num_refused = 0

    def refresh(self, now_s: float) -> bool:
        """Look at the file where it is time; return whether another policy has come into force.

        Parameters
        ----------
        now_s
            Seconds of a clock that never goes back.
        """
        if now_s < self._next_look_s:
            return False
        self._next_look_s = now_s + self._poll_s
        stamp = self._stamp()
        is_second_look = stamp == self._seen
        if is_second_look and self._is_settled:
            return False
        self._seen, self._is_settled = stamp, is_second_look
        return self._look(is_second_look=is_second_look)

    def _look(self, *, is_second_look: bool) -> bool:
        """Read the file, which a second look mostly finds as the first one did; return as :meth:`refresh`."""
        before, self._outcome = self._outcome, None
        try:
            data = read_policy_bytes(self._path)
            self._outcome = hashlib.sha256(data).digest()
            if is_second_look and self._outcome == before:
                return False
            policy = parse_policy(data, max_depth=self._max_depth, known_adapters=self._known_adapters)
        except Exception as err:  # whatever is wrong with a file, or with its reader, must not end the engine
            if not (is_second_look and self._outcome is before is None):
                self._refuse(err)
            return False
        self.num_loaded += 1
        is_new, self.policy = policy != self.policy, policy
        _LOG.info("policy %s is in force: %d adapters", self._path, len(policy.adapters))
        return is_new

    def _refuse(self, err: Exception) -> None:
        self.num_refused += 1
        reason = str(err) if isinstance(err, PolicyError) else f"it cannot be read ({type(err).__name__}: {err})"
        kept = "the last good policy stays in force" if self.policy else "all requests run at the engine's depth"
        _LOG.warning("policy %s is refused: %s; %s", self._path, reason, kept)

    def _stamp(self) -> Stamp | None:
        """Return what tells one version of the file from the next; None where there is none."""
        try:
            status = self._path.stat()
        except (OSError, ValueError):  # a path that no file can have is a ValueError
            return None
        return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
