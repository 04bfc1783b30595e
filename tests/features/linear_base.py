"""A base that can be solved by hand: two linear modules with attention of known weights between them.

h_s = W1 x_s; z_t = sum_{s<=t} a_ts W2 h_s; the margin at t is c_t' z_t. Bilinear in (W1, W2), so that a central
difference of any size is the exact derivative along any direction.
"""

import numpy as np

from lora_spec.base_trace import BaseTrace, InputMoments, ModuleTrace
from lora_spec.features.base_profile import profile_of
from lora_spec.features.base_profile_header import header_of

Q, V = "model.layers.0.self_attn.q_proj", "model.layers.1.self_attn.v_proj"
TOKENS, WIDE, INNER, OUT = 7, 6, 5, 4


class LinearBase:
    """The base with its texts; ``profile`` records it in full, or with fewer directions of the moments."""

    def __init__(self, seed=0):
        rng = np.random.default_rng(seed)
        self.w1, self.w2 = rng.normal(size=(INNER, WIDE)), rng.normal(size=(OUT, INNER))
        self.x = rng.normal(size=(TOKENS, WIDE)) * np.linspace(0.2, 3, WIDE)
        self.a = np.tril(rng.uniform(0.1, 1, (TOKENS, TOKENS)))
        self.c = rng.normal(size=(TOKENS, OUT))
        self.c *= np.sign(self.margins())[:, None]  # margins are of the best over the second-best token
        self.choices = np.arange(TOKENS) % 3

    def margins(self, d1=0.0, d2=0.0):
        hidden = self.x @ (self.w1 + d1).T
        return np.einsum("ts,so,to->t", self.a, hidden @ (self.w2 + d2).T, self.c)

    def inputs(self):
        return {Q: self.x, V: self.x @ self.w1.T}

    def _module(self, name, weight):
        """Return the module with one factor per token that its margin depends on."""
        into = {Q: self.c @ self.w2, V: self.c}[name]
        inputs = np.repeat(self.inputs()[name][None], TOKENS, axis=0)
        gradients = self.a[:, :, None] * into[:, None, :]
        energy = float(np.mean(np.sum((self.inputs()[name] @ weight.T) ** 2, axis=1)))
        return ModuleTrace(name, name, energy, inputs, gradients, 1.0)

    def profile(self, num_directions=None):
        moments = {}
        for name, rows in self.inputs().items():
            energies, directions = np.linalg.eigh(rows.T @ rows / TOKENS)
            kept = slice(None, None, -1)
            energies, directions = energies[kept][:num_directions], directions[:, kept][:, :num_directions]
            moments[name] = InputMoments(directions, energies, float(np.mean(np.sum(rows**2, axis=1))))
        modules = (self._module(Q, self.w1), self._module(V, self.w2))
        places = np.zeros((TOKENS, 4), dtype=np.int32)
        trace = BaseTrace(modules, moments, self.margins(), self.choices.astype(np.uint8), places, (), 3, TOKENS)
        return profile_of(trace, header(trace))


def header(trace, **changes):
    settings = {"num_prompts": 1, "max_tokens": TOKENS, "num_positions": TOKENS, "num_pairs": TOKENS}
    circumstances = {
        "tier": "test",
        "provenance": {},
        "target": {"name": "linear", "sha256": ["0" * 64]},
        "drafter": {"name": "drafter", "sha256": ["1" * 64]},
        "prompts_sha256": ["2" * 64],
        "dtype": "float64",
        "settings": {**settings, "num_directions": WIDE, "seed": 0},
    }
    return header_of(trace, **{**circumstances, **changes})
