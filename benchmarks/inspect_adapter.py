"""How fast is the adapter reader, against PEFT's dense route on the same machine in the same run.

    python benchmarks/inspect_adapter.py --peft-python .venv-serving/bin/python

Makes the adapter of an all-linear r=64 LoRA for an 8B Llama (224 modules, 336 MB in bf16) in a temporary folder,
then prints wall time, processor time and peak memory of each task, and ratios. Every task runs on one core, after one
run that warms the page cache; the least of the repeats is given, with the machine's load beside it.

The dense route is what PEFT offers: ``LoraLayer.get_delta_weight`` forms scale*B@A, and norms are taken of that. It is
timed once for each shape and multiplied by the number of such modules. Singular values of the dense product take
minutes a module; they are timed for the smallest shape only, so that ratio is a lower bound.
"""

import argparse
import json
import os
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

HIDDEN, KEY_VALUE, MLP, LAYERS, RANK = 4096, 1024, 14336, 32, 64
SHAPES = {
    "self_attn.q_proj": (HIDDEN, HIDDEN),
    "self_attn.k_proj": (KEY_VALUE, HIDDEN),
    "self_attn.v_proj": (KEY_VALUE, HIDDEN),
    "self_attn.o_proj": (HIDDEN, HIDDEN),
    "mlp.gate_proj": (MLP, HIDDEN),
    "mlp.up_proj": (MLP, HIDDEN),
    "mlp.down_proj": (HIDDEN, MLP),
}
DENSE = """
import json, sys, time
import torch
from peft import LoraConfig
from peft.tuners.lora.layer import Linear
torch.set_num_threads(1)
answers = {}
for out, size, with_values in json.load(sys.stdin):
    base = torch.nn.Linear(size, out, bias=False)
    layer = Linear(base, "default", config=LoraConfig(r=64, lora_alpha=128), r=64, lora_alpha=128)
    torch.nn.init.normal_(layer.lora_B["default"].weight)
    with torch.no_grad():
        started = time.perf_counter()
        delta = layer.get_delta_weight("default")
        norm = torch.linalg.vector_norm(delta).item()
        answers[f"{out}x{size}"] = [time.perf_counter() - started, None]
        if with_values:
            started = time.perf_counter()
            torch.linalg.svdvals(delta)
            answers[f"{out}x{size}"][1] = time.perf_counter() - started
print(json.dumps(answers))
"""


class Usage(NamedTuple):
    """What one run of a command took."""

    wall_s: float
    cpu_s: float
    peak_mb: float


def write_adapter(folder: Path) -> None:
    """Write the large adapter, one tensor at a time."""
    entries, start = {}, 0
    for layer in range(LAYERS):
        for module, (rows, columns) in SHAPES.items():
            for leaf, shape in (("lora_A", (RANK, columns)), ("lora_B", (rows, RANK))):
                size = 2 * shape[0] * shape[1]
                name = f"base_model.model.model.layers.{layer}.{module}.{leaf}.weight"
                entries[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [start, start + size]}
                start += size
    header = json.dumps(entries).encode()
    header += b" " * (-len(header) % 8)
    rng = np.random.default_rng(0)
    with (folder / "adapter_model.safetensors").open("wb") as stream:
        stream.write(struct.pack("<Q", len(header)) + header)
        for entry in entries.values():
            values = rng.standard_normal(entry["shape"], dtype=np.float32) * np.float32(0.02)
            stream.write((values.view(np.uint32) >> 16).astype("<u2").tobytes())
    targets = [module.rpartition(".")[2] for module in SHAPES]
    config = {"peft_type": "LORA", "r": RANK, "lora_alpha": 2 * RANK, "target_modules": targets}
    (folder / "adapter_config.json").write_text(json.dumps(config))


def write_small(folder: Path, hidden: int = 64) -> None:
    """Write a small adapter of four modules, as a fleet has by the thousand."""
    from safetensors.numpy import save_file

    rng, tensors = np.random.default_rng(0), {}
    for layer in range(2):
        for module in ("q_proj", "v_proj"):
            name = f"base_model.model.model.layers.{layer}.self_attn.{module}"
            tensors[f"{name}.lora_A.weight"] = rng.standard_normal((8, hidden), dtype=np.float32)
            tensors[f"{name}.lora_B.weight"] = rng.standard_normal((hidden, 8), dtype=np.float32)
    folder.mkdir()
    save_file(tensors, folder / "adapter_model.safetensors")
    config = {"peft_type": "LORA", "r": 8, "lora_alpha": 16, "target_modules": ["q_proj", "v_proj"]}
    (folder / "adapter_config.json").write_text(json.dumps(config))


def measure(command: list[str], repeats: int, *, cores: int = 1) -> Usage:
    """Return the least wall time of several runs, with the processor time and peak memory of that run."""
    usages = [_run(command, cores) for _ in range(repeats + 1)][1:]
    return min(usages)


def _run(command: list[str], cores: int) -> Usage:
    allowed = sorted(os.sched_getaffinity(0))[:cores]
    # A user's second start finds compiled modules; an environment that forbids them would time the compiler.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    started = time.perf_counter()
    process = subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment,
        preexec_fn=lambda: os.sched_setaffinity(0, allowed),
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    return Usage(time.perf_counter() - started, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


def dense_route(python: str) -> tuple[float, float]:
    """Return seconds for the norms of all 224 dense products, and for the singular values of the 64 smallest."""
    shapes = sorted(set(SHAPES.values()))
    smallest = min(shapes)
    request = json.dumps([[*shape, shape == smallest] for shape in shapes])
    done = subprocess.run([python, "-c", DENSE], input=request, capture_output=True, text=True, check=True)
    answers = json.loads(done.stdout.splitlines()[-1])
    norms = LAYERS * sum(answers[f"{rows}x{columns}"][0] for rows, columns in SHAPES.values())
    number = LAYERS * sum(shape == smallest for shape in SHAPES.values())
    return norms, number * answers[f"{smallest[0]}x{smallest[1]}"][1]


def show(name: str, usage: Usage, target: str = "") -> None:
    print(f"{name:34} {usage.wall_s:8.3f} s wall {usage.cpu_s:8.3f} s cpu {usage.peak_mb:7.0f} MB   {target}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peft-python", metavar="PYTHON", help="an interpreter with torch and PEFT, for the ratios")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--fleet", type=int, default=1000, metavar="N", help="number of small adapters")
    args = parser.parse_args()
    program = [sys.executable, "-m", "lora_spec.cli.main"]
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors; numpy {np.__version__}")
    with tempfile.TemporaryDirectory(prefix="inspect-benchmark-") as scratch:
        large = Path(scratch) / "large"
        large.mkdir()
        write_adapter(large)
        start = measure([sys.executable, "-c", "pass"], 3 * args.repeats)
        show("interpreter start", start)
        show("lora-spec --help", measure([*program, "--help"], args.repeats), "target 0.3 s")
        header = measure([*program, "inspect", "--json", "--header-only", str(large)], 3 * args.repeats)
        show("inspect --header-only, 224 modules", header, "target 0.050 s beyond the start")
        print(f"{'  beyond the start':34} {header.wall_s - start.wall_s:8.3f} s")
        whole = measure([*program, "inspect", "--json", str(large)], args.repeats)
        show("inspect, 224 modules, 336 MB", whole, "target 1.5 s, 300 MB")
        for index in range(args.fleet):
            write_small(Path(scratch) / f"fleet-{index:05d}")
        fleet = [*program, "inspect", "--recursive", "--json", scratch]
        show(f"inspect --recursive, {args.fleet + 1} folders", measure(fleet, 1, cores=os.cpu_count() or 1))
        if args.peft_python:
            norms, values = dense_route(args.peft_python)
            print(f"{'PEFT dense: 224 Frobenius norms':34} {norms:8.1f} s   {norms / whole.wall_s:6.1f} x ours")
            print(f"{'PEFT dense: 64 smallest spectra':34} {values:8.1f} s   {values / whole.wall_s:6.1f} x ours")
            both = norms + values
            print(f"{'PEFT dense: both (lower bound)':34} {both:8.1f} s   {both / whole.wall_s:6.1f} x ours")
    print(f"load {os.getloadavg()[0]:.1f} at the end")


if __name__ == "__main__":
    main()
