"""What a policy is in a stress run: what it may know beforehand, and what it is asked at every step."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from lora_spec.cost_model.step_cost import StepCost
from lora_spec.errors import ConfigError
from lora_spec.policy.policy_file import Load, Policy

Rates = tuple[float, ...]
"""a_1, a_2, ...: marginal acceptance by position."""


class Chooser(ABC):
    """Chooses depths inside one engine. Where it does not learn, depths depend on the key of ``begin_step`` alone."""

    is_learning: bool = False

    @abstractmethod
    def begin_step(self, batch_size: int, now_s: float) -> int:
        """Take in the step's batch and time; return a key that changes whenever a depth may have changed."""

    @abstractmethod
    def depth(self, adapter: str | None) -> int:
        """Return how many tokens an adapter's requests draft in this step; None stands for the base model."""

    def observe(self, adapter: str | None, num_draft_tokens: int, num_accepted_tokens: int) -> None:  # noqa: B027
        """Learn from one decode step of one request, also from one without drafts."""


@dataclass(frozen=True)
class Situation:
    """What policies are made from. No policy but the bounds may look at ``acceptance``.

    Parameters
    ----------
    acceptance, expected
        True acceptance by adapter, and what was predicted before traffic; None where nothing was.
    shares
        Share of the requests by adapter.
    loads
        Batch sizes at which depths may differ, with what a step costs at every depth.
    max_depth, standing_depth
        What the engine was started for, and what the fleet runs today.
    policy
        Policy file of the gate; None where there is none.
    options
        By policy name, what ``baselines.yaml`` says of it.
    """

    acceptance: Mapping[str | None, Rates]
    shares: Mapping[str | None, float]
    loads: tuple[Load, ...]
    cost: StepCost
    max_depth: int
    standing_depth: int
    expected: Mapping[str | None, Rates] | None = None
    policy: Policy | None = None
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    seed: int = 0

    def expected_for(self, policy: str) -> Mapping[str | None, Rates]:
        """Return predicted acceptance, for a policy that needs it.

        Raises
        ------
        ConfigError
            There is none.
        """
        if self.expected is None:
            raise ConfigError(f"policy {policy!r} needs predicted acceptance; predict it or leave the policy out")
        return self.expected

    def policy_for(self, policy: str) -> Policy:
        """Return the policy file, for a policy that obeys it.

        Raises
        ------
        ConfigError
            There is none.
        """
        if self.policy is None:
            raise ConfigError(f"policy {policy!r} needs a policy file; make one with lora-spec policy or leave it out")
        return self.policy

    def option(self, policy: str, key: str) -> Any:
        """Return one value of ``baselines.yaml``.

        Raises
        ------
        ConfigError
            It is not there.
        """
        try:
            return self.options[policy][key]
        except KeyError as err:
            raise ConfigError(f"policy {policy!r}: {key} is missing; baselines.yaml says it") from err


MakeChooser = Callable[[], Chooser]
Candidates = Mapping[str, MakeChooser]
"""A policy's ways to run, by label: one, or several of which hindsight takes the best."""
MakePolicy = Callable[[Situation], Candidates]
