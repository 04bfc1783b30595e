"""Score finished texts by plain forward passes of the target with an adapter on it: a judge that shares no code with
the serving engine. Imports torch, transformers and peft when called.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class ScoredText:
    """A prompt, its output, and the adapter that it was asked to be written under (None: the base model)."""

    text_id: str
    prompt_token_ids: tuple[int, ...]
    output_token_ids: tuple[int, ...]
    adapter: str | None


def score_texts(
    target: str,
    adapters: Mapping[str, str],
    texts: Sequence[ScoredText],
    *,
    temperatures: Mapping[str, float],
    num_threads: int,
) -> dict[str, dict[str, Any]]:
    """Return scores by text id.

    Parameters
    ----------
    adapters
        Adapter name to PEFT folder.
    temperatures
        Text id to sampling temperature; 0 is greedy and is scored at temperature 1.

    Returns
    -------
    dict
        ``gaps``: per output token, the largest logit minus the token's, 0 where it is the greedy choice.
        ``surprisal``, ``entropy``, ``variance``: sums over tokens of -log p, of its expectation and of its variance
        under the target; sampling from the target makes surprisal - entropy a sum of zero-mean terms.
        ``log_ratio_to_base``: log-likelihood under the adapter minus under the base.
    """
    import torch

    torch.set_num_threads(num_threads)
    model = _load(target, adapters)
    scores = {}
    with torch.inference_mode():
        for text in texts:
            logits = _output_logits(model, text, text.adapter)
            base = logits if text.adapter is None else _output_logits(model, text, None)
            scores[text.text_id] = _score(logits, base, text.output_token_ids, temperatures[text.text_id] or 1.0)
    return scores


def _load(target: str, adapters: Mapping[str, str]) -> Any:
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(target, dtype=torch.float32).eval()
    if not adapters:
        return model
    from peft import PeftModel

    (first, path), *others = adapters.items()
    model = PeftModel.from_pretrained(model, Path(path), adapter_name=first)
    for name, folder in others:
        model.load_adapter(Path(folder), adapter_name=name)
    return model.eval()


def _output_logits(model: Any, text: ScoredText, adapter: str | None) -> Any:
    """Return the logits that each output token was chosen from, shape (num_output_tokens, vocab_size)."""
    import torch

    ids = torch.tensor([[*text.prompt_token_ids, *text.output_token_ids[:-1]]])
    if adapter is not None:
        model.set_adapter(adapter)
        logits = model(ids).logits
    elif hasattr(model, "disable_adapter"):
        with model.disable_adapter():
            logits = model(ids).logits
    else:
        logits = model(ids).logits
    return logits[0, len(text.prompt_token_ids) - 1 :]


def _score(logits: Any, base_logits: Any, output_token_ids: tuple[int, ...], temperature: float) -> dict[str, Any]:
    import torch

    chosen = torch.tensor(output_token_ids).unsqueeze(1)
    log_p = torch.log_softmax(logits.double() / temperature, dim=-1)
    log_base = torch.log_softmax(base_logits.double() / temperature, dim=-1)
    p = log_p.exp()
    entropy = -(p * log_p).sum(dim=-1)
    variance = (p * log_p.square()).sum(dim=-1) - entropy.square()
    log_chosen = log_p.gather(1, chosen)
    return {
        "gaps": (logits.max(dim=-1, keepdim=True).values - logits.gather(1, chosen)).squeeze(1).tolist(),
        "surprisal": -float(log_chosen.sum()),
        "entropy": float(entropy.sum()),
        "variance": float(variance.sum()),
        "log_ratio_to_base": float((log_chosen - log_base.gather(1, chosen)).sum()),
    }
