"""What the linear modules of a model read and wrote in one pass, and the leading terms of a gradient made of them.

Imports torch when called.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]


@contextmanager
def tape(model: Any, linears: dict[str, Any]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Record inputs and outputs of the linear modules of one forward pass, outputs with their graph."""
    inputs: dict[str, Any] = {}
    outputs: dict[str, Any] = {}

    def record(name: str) -> Any:
        def hook(module: Any, given: tuple[Any, ...], output: Any) -> None:
            inputs[name], outputs[name] = given[0], output

        return hook

    hooks = [module.register_forward_hook(record(name)) for name, module in linears.items()]
    # All weights are frozen, so the graph has to begin at the embeddings.
    embed = model.get_input_embeddings()
    hooks.append(embed.register_forward_hook(lambda module, given, output: output.detach().requires_grad_()))
    try:
        yield inputs, outputs
    finally:
        for hook in hooks:
            hook.remove()


def leading_pairs(inputs: Any, gradients: Any, num_pairs: int) -> tuple[Array, Array, float, float]:
    """Return the best approximation of ``gradients.T @ inputs`` by a sum of few products.

    Parameters
    ----------
    inputs, gradients
        Tensors of shape ``(num_tokens, in_features)`` and ``(num_tokens, out_features)``.

    Returns
    -------
    tuple
        Factors of shape ``(num_pairs, in_features)`` and ``(num_pairs, out_features)``, each term's size shared
        between them, zero where there are no more terms; the squared norm that they hold; that of the whole.
    """
    import torch

    basis_x, triangle_x = torch.linalg.qr(inputs.T)
    basis_g, triangle_g = torch.linalg.qr(gradients.T)
    left, values, right = torch.linalg.svd(triangle_g @ triangle_x.T, full_matrices=False)
    root = values[:num_pairs].sqrt()
    kept_x, kept_g = (
        np.zeros((num_pairs, part.shape[1]), dtype=np.float32 if part.dtype != torch.float64 else np.float64)
        for part in (inputs, gradients)
    )
    kept_x[: len(root)] = ((right[:num_pairs] @ basis_x.T) * root[:, None]).numpy()
    kept_g[: len(root)] = ((left[:, :num_pairs].T @ basis_g.T) * root[:, None]).numpy()
    squared = values.double().square()
    return kept_x, kept_g, float(squared[:num_pairs].sum()), float(squared.sum())
