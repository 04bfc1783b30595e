"""The acceptance from which on a speculative step pays, in closed form."""

from lora_spec.errors import ConfigError

_BISECTIONS = 60


def iid_acceptance_rates(token_acceptance_prob: float, num_speculative_tokens: int) -> tuple[float, ...]:
    """Return a_k = alpha^k for k = 1..K: every draft token accepted with the same probability, independently."""
    return tuple(token_acceptance_prob**k for k in range(1, num_speculative_tokens + 1))


def iid_acceptance_length(token_acceptance_prob: float, num_speculative_tokens: int) -> float:
    """Return E_K = 1 + sum_k alpha^k = (1 - alpha^(K+1)) / (1 - alpha).

    References: Leviathan, Kalman and Matias 2023, Eq. 1.
    """
    return 1 + sum(iid_acceptance_rates(token_acceptance_prob, num_speculative_tokens))


def break_even_token_acceptance_prob(step_time_ratio: float, num_speculative_tokens: int) -> float | None:
    """Return alpha at which E_K = T_K / T_0, None where even full acceptance does not pay.

    Parameters
    ----------
    step_time_ratio
        T_K(B) / T_0(B) > 0; at or below 1 every acceptance pays, and 0 is returned.
    """
    if num_speculative_tokens < 1 or step_time_ratio <= 0:
        raise ConfigError(
            f"no break-even at K={num_speculative_tokens} and step-time ratio {step_time_ratio}: "
            "K must be at least 1 and the ratio positive"
        )
    if step_time_ratio > num_speculative_tokens + 1:
        return None
    low, high = 0.0, 1.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        if iid_acceptance_length(middle, num_speculative_tokens) < step_time_ratio:
            low = middle
        else:
            high = middle
    return high if step_time_ratio > 1 else 0.0
