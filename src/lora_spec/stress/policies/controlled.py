"""Depths as the scheduler inside vLLM chooses them: the same code, driven by simulated time."""

from lora_spec.policy.control import DepthControl
from lora_spec.policy.policy_file import Policy
from lora_spec.stress.policies.base import Chooser, Situation


class ControlledChooser(Chooser):
    """A policy under :class:`lora_spec.policy.control.DepthControl`; it learns where the policy has a live rule."""

    def __init__(self, policy: Policy, *, max_depth: int) -> None:
        self._policy = policy
        self._now_s = 0.0
        self.changes: dict[str, int] = {}
        self._control = DepthControl(
            _OnePolicy(policy), max_depth=max_depth, counters=_Changes(self.changes), clock_s=lambda: self._now_s
        )
        self.is_learning = policy.live is not None

    def begin_step(self, batch_size: int, now_s: float) -> int:
        """Take in the step's batch and time; the key is the load."""
        self._now_s = now_s
        self._control.begin_step(batch_size)
        return self._policy.load_index(batch_size)

    def depth(self, adapter: str | None) -> int:
        """Return the depth in force."""
        return self._control.depth(adapter)

    def observe(self, adapter: str | None, num_draft_tokens: int, num_accepted_tokens: int) -> None:
        """Count a draft step; a step without drafts is none, as in vLLM."""
        if num_draft_tokens:
            self._control.observe(adapter, num_draft_tokens, num_accepted_tokens)


class _OnePolicy:
    """A watched file that never changes."""

    def __init__(self, policy: Policy) -> None:
        self.policy: Policy | None = policy
        self.num_loaded, self.num_refused = 1, 0

    def refresh(self, now_s: float) -> bool:
        return False


class _Changes:
    """Counts what live acceptance changed; drafts are counted by the engine."""

    def __init__(self, changes: dict[str, int]) -> None:
        self._changes = changes

    def observe(self, adapter: str | None, num_draft_tokens: int, num_accepted_tokens: int) -> None:
        pass

    def show_depth(self, adapter: str | None, depth: int) -> None:
        pass

    def count_change(self, adapter: str | None, change: str) -> None:
        self._changes[change] = self._changes.get(change, 0) + 1

    def count_policies(self, num_loaded: int, num_refused: int) -> None:
        pass


def one_depth(situation: Situation, depth: int) -> Policy:
    """Return the policy that gives all the same depth at every load."""
    return Policy(
        max_num_speculative_tokens=situation.max_depth, loads=situation.loads, default=(depth,) * len(situation.loads)
    )


def depths_by_adapter(situation: Situation, depths: dict[str | None, tuple[int, ...]]) -> Policy:
    """Return the policy with these depths at every load; who has no entry stands.

    Parameters
    ----------
    depths
        By adapter, one depth per load.
    """
    standing = (situation.standing_depth,) * len(situation.loads)
    return Policy(
        max_num_speculative_tokens=situation.max_depth,
        loads=situation.loads,
        default=depths.get(None, standing),
        adapters={name: found for name, found in depths.items() if name is not None},
    )
