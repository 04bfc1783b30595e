"""How much memory vLLM's matrix products keep on a CPU while the number of tokens in a step varies.

    .venv-serving/bin/python benchmarks/kernel_memory.py
    LD_PRELOAD=libtcmalloc_minimal.so.4 .venv-serving/bin/python benchmarks/kernel_memory.py

oneDNN makes a kernel for every shape of a product and keeps the last of them. Each step multiplies by all matrices of
some layers of the small target, with a random number of rows. Resident memory is printed twelve times: under tcmalloc
it is flat once the kernels are in, on glibc's heap it creeps (docs/LOG.md, 2026-12-01). Runs about two minutes.
"""

import argparse
import os
import random

from lora_spec.stress.process_tree import tree_rss_mib

MATRICES = ((576, 960), (576, 576), (576, 3072), (1536, 576))
"""Inputs and outputs of the products of one layer: attention in and out, MLP in and out."""


def resident_mib() -> float:
    """Return the memory of this process."""
    return sum(tree_rss_mib(os.getpid()).values())


def main(args: argparse.Namespace) -> None:
    """Multiply, and print what is kept."""
    import torch
    from vllm._custom_ops import create_onednn_mm, onednn_mm

    torch.set_num_threads(1)
    layers = [
        (rows, create_onednn_mm(torch.randn(columns, rows, dtype=torch.bfloat16).t(), args.kept_per_matrix))
        for _ in range(args.layers)
        for rows, columns in MATRICES
    ]
    draw = random.Random(0)
    print(f"before: {resident_mib():.0f} MiB", flush=True)
    for step in range(1, args.steps + 1):
        num_tokens = draw.randint(1, args.max_tokens)
        for rows, layer in layers:
            onednn_mm(layer, torch.zeros(num_tokens, rows, dtype=torch.bfloat16), None)
        if step % max(1, args.steps // 12) == 0:
            print(f"after {step} steps: {resident_mib():.0f} MiB", flush=True)


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--layers", type=int, default=1)
parser.add_argument("--kept-per-matrix", type=int, default=128, help="kernels that vLLM keeps (default: %(default)s)")
parser.add_argument("--max-tokens", type=int, default=400, help="of a step (default: %(default)s)")
parser.add_argument("--steps", type=int, default=6000)

if __name__ == "__main__":
    main(parser.parse_args())
