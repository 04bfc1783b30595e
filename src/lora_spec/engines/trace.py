"""Runs a base target over its own greedy texts once and records what any later adapter acts on and acts against.

An update Delta of a module with weight W adds Delta x_s to its output at every token s. To first order that moves the
margin of the two best tokens at position t by

    d margin_t = sum_m sum_{s<=t} g_{m,t,s}' Delta_m x_{m,s} = sum_m <Delta_m, G_{m,t}>,   G_{m,t} = sum_s g x'

with g the gradient of that margin with respect to the module's output at s, x its input there. G is the gradient of
the margin with respect to the weight, so tokens before t count too: an update of v_proj acts nearly all through them.
Its best approximations of few terms (Eckart and Young 1936) are kept. That logits, and their differences, move
linearly in a small update is known (the linearised fine-tuning of Malladi et al. 2023, arXiv 2210.05643; the logit
shift of LoRA in github.com/esaran1/LoRA-Spec); here it is recorded so that no model need run per adapter.

Knows nothing of adapters. Imports torch when called.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lora_spec.base_trace import OTHER, BaseTrace, InputMoments, ModuleTrace
from lora_spec.engines.base import Trajectory
from lora_spec.engines.greedy_texts import load_target, write_greedily
from lora_spec.engines.replay import TransformersReplayer
from lora_spec.engines.tape import leading_pairs, tape
from lora_spec.errors import EngineError

Array = NDArray[np.float32]


@dataclass(frozen=True)
class TraceSettings:
    """How much is recorded.

    Parameters
    ----------
    max_tokens
        Cap on the tokens of a text.
    num_positions
        Output positions whose margin is differentiated, spread evenly over the texts.
    num_pairs
        Terms of G kept per module and position.
    num_directions
        Eigenvectors kept of each second moment.
    seed
        Of the choice of positions.
    """

    max_tokens: int
    num_positions: int
    num_pairs: int
    num_directions: int
    seed: int


def trace_base(
    target: str,
    drafter: str,
    messages: Sequence[str],
    settings: TraceSettings,
    *,
    dtype: str = "float32",
    num_threads: int | None = None,
) -> BaseTrace:
    """Return the trace of a pair on user messages, each under the target's chat template.

    Parameters
    ----------
    target, drafter
        Model folders in Hugging Face format, of one vocabulary.

    Raises
    ------
    EngineError
        A folder holds no model, a message no text, or there are fewer output positions than asked for.
    """
    import torch

    if num_threads is not None:
        torch.set_num_threads(num_threads)
    model, tokenizer = load_target(target, dtype)
    texts = write_greedily(model, tokenizer, messages, settings.max_tokens)
    choices = TransformersReplayer(drafter, dtype=dtype).first_choices(texts)
    chosen = choose_positions([len(text.output_token_ids) for text in texts], settings)
    recorder = _Recorder(model, settings)
    for text, positions, drafted in zip(texts, chosen, choices, strict=True):
        recorder.read(text, positions, drafted)
    return recorder.finish()


def choose_positions(lengths: Sequence[int], settings: TraceSettings) -> list[list[int]]:
    """Return, per text, the output positions to trace: drawn by seed, from all texts in turn until there are enough.

    Raises
    ------
    EngineError
        The texts hold fewer positions.
    """
    if sum(lengths) < settings.num_positions:
        raise EngineError(
            f"the texts hold {sum(lengths)} output positions, {settings.num_positions} are to be traced; "
            "give more prompts or trace fewer"
        )
    rng = np.random.default_rng(settings.seed)
    waiting = [rng.permutation(length).tolist() for length in lengths]
    chosen: list[list[int]] = [[] for _ in lengths]
    while (missing := settings.num_positions - sum(map(len, chosen))) > 0:
        # A last round that is too short takes from texts all over the list, not from the first domain alone.
        able = [index for index, rest in enumerate(waiting) if rest]
        able = able if len(able) <= missing else sorted(rng.permutation(able)[:missing].tolist())
        for index in able:
            chosen[index].append(waiting[index].pop())
    return [sorted(positions) for positions in chosen]


class _Recorder:
    """Adds up moments and keeps factors while texts are read one after another."""

    def __init__(self, model: Any, settings: TraceSettings) -> None:
        import torch

        self._model, self._settings = model, settings
        # The head is no module of a layer: adapters that change it are beyond this trace.
        self._linears = {
            name: module
            for name, module in model.named_modules()
            if isinstance(module, torch.nn.Linear) and ".layers." in f".{name}."
        }
        if not self._linears:
            raise EngineError("the target has no linear modules in layers; this architecture cannot be traced")
        self._input_of: dict[str, str] = {}
        self._second: dict[str, Any] = {}
        self._output_energy = dict.fromkeys(self._linears, 0.0)
        self._pairs: dict[str, list[tuple[Array, Array]]] = {name: [] for name in self._linears}
        self._energy = {name: np.zeros(2) for name in self._linears}
        self._margins: list[float] = []
        self._choices: list[int] = []
        self._places: list[tuple[int, ...]] = []
        self._texts: list[Trajectory] = []
        self._num_tokens = 0

    def read(self, text: Trajectory, positions: Sequence[int], drafted: NDArray[np.int_]) -> None:
        """Read one text: moments at all its output positions, factors at the chosen ones."""
        import torch

        first = len(text.prompt_token_ids) - 1
        ids = torch.tensor([[*text.prompt_token_ids, *text.output_token_ids[:-1]]])
        with tape(self._model, self._linears) as (inputs, outputs):
            logits = self._model(input_ids=ids, use_cache=False).logits[0]
        self._add_moments(inputs, outputs, first)
        for position in positions:
            best = logits[first + position].topk(2)
            margin = best.values[0] - best.values[1]
            gradients = torch.autograd.grad(margin, list(outputs.values()), retain_graph=True)
            self._keep_pairs(inputs, dict(zip(outputs, gradients, strict=True)), first + position + 1)
            self._margins.append(float(margin.detach()))
            self._choices.append(_rank_of(int(drafted[position]), best.indices.tolist()))
            self._places.append((len(self._texts), position, *best.indices.tolist()))
        self._texts.append(text)

    def _add_moments(self, inputs: dict[str, Any], outputs: dict[str, Any], first: int) -> None:
        owners = {id(value): name for name, value in reversed(inputs.items())}
        self._input_of = {name: owners[id(value)] for name, value in inputs.items()}
        for name in set(self._input_of.values()):
            rows = inputs[name][0, first:].detach()
            self._second[name] = self._second.get(name, 0.0) + rows.T @ rows
        for name, value in outputs.items():
            self._output_energy[name] += float(value[0, first:].detach().square().sum())
        self._num_tokens += next(iter(inputs.values())).shape[1] - first

    def _keep_pairs(self, inputs: dict[str, Any], gradients: dict[str, Any], num_read: int) -> None:
        for name, gradient in gradients.items():
            kept = leading_pairs(inputs[name][0, :num_read].detach(), gradient[0, :num_read], self._settings.num_pairs)
            self._pairs[name].append(kept[:2])
            self._energy[name] += kept[2:]

    def finish(self) -> BaseTrace:
        """Return everything that was recorded."""
        moments = {name: self._moments(second / self._num_tokens) for name, second in self._second.items()}
        return BaseTrace(
            modules=tuple(self._module(name) for name in self._linears),
            moments=moments,
            margins=np.array(self._margins, dtype=np.float32),
            drafter_choices=np.array(self._choices, dtype=np.uint8),
            places=np.array(self._places, dtype=np.int32),
            texts=tuple((text.prompt_token_ids, text.output_token_ids) for text in self._texts),
            num_layers=self._model.config.get_text_config().num_hidden_layers,
            num_tokens=self._num_tokens,
        )

    def _module(self, name: str) -> ModuleTrace:
        inputs, gradients = (np.stack(part) for part in zip(*self._pairs[name], strict=True))
        kept, whole = self._energy[name]
        share = kept / whole if whole else 1.0
        energy = self._output_energy[name] / self._num_tokens
        return ModuleTrace(name, self._input_of[name], energy, inputs, gradients, float(share))

    def _moments(self, second: Any) -> InputMoments:
        import torch

        values, vectors = torch.linalg.eigh(second)
        count = self._settings.num_directions
        values, vectors = values.flip(0)[:count].clamp(min=0), vectors.flip(1)[:, :count]
        return InputMoments(vectors.numpy().copy(), values.numpy().copy(), float(second.trace()))


def _rank_of(token: int, best: Sequence[int]) -> int:
    return best.index(token) if token in best else OTHER
