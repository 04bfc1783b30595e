"""Feed the reader folders damaged at random, and check that it always answers as the contract says.

    python tests/adapter/fuzz_reader.py --count 100000 --seed 0

Each input is drawn from its own number, so a failing one is rebuilt with ``--only NUMBER``. The exit status is 0 if
every input got an answer: a known status, codes of the vocabulary that go with it, strict JSON, no raw control
characters, no exception, and no input slower than the limit.
"""

import argparse
import json
import random
import shutil
import struct
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import build_adapter_cases as kit
import check_adapter_cases as checker
import numpy as np

from lora_spec.adapter import inspect_adapter
from lora_spec.adapter.codes import CODES
from lora_spec.adapter.runtimes import RUNTIMES, served_update

SLOW_S = 5.0
_TOLD = 5000
NASTY_TEXT = (
    *("", "a", "\x00", "\x1b[2J", "\x7f", "\u202e", "\ud800", "../x", "/etc/passwd", "model", "lora_A", "A" * 3000),
    *("LORA", "all-linear", "pissa", "(a+)+$", "((((", "[", "\\", "(?i)x", "a{1,99999}", "x|y", ".*.*.*.*.*", "(?!x)"),
)
NASTY_NUMBERS = (0, -1, 1, 2, 4, 8, 65536, 65537, 2**31, 2**63, 2**64, 10**30, 0.5, -0.0, 1e308, 1e-320, 1e999)
NASTY_BYTES = (
    b"\x80\x04\x95",
    b"PK\x03\x04",
    b"GGUF",
    b"version https://git-lfs",
    b"\x00" * 9,
    b"{" * 5000,
    b"[" * 5000,
)


def any_value(rng: random.Random, depth: int = 0) -> Any:
    """Draw a JSON value, now and then a nested one."""
    kind = rng.randrange(8 if depth < 4 else 5)
    if kind < 2:
        return rng.choice(NASTY_TEXT)
    if kind < 4:
        return rng.choice(NASTY_NUMBERS)
    if kind == 4:
        return rng.choice((None, True, False))
    if kind == 5:
        return [any_value(rng, depth + 1) for _ in range(rng.randrange(4))]
    return {rng.choice((*NASTY_TEXT, "q_proj", "v_proj")): any_value(rng, depth + 1) for _ in range(rng.randrange(4))}


def damage_config(rng: random.Random, config: dict[str, Any], tensors: dict[str, kit.Tensor]) -> None:
    """Change fields of the config: known ones, unknown ones, to anything."""
    known = ["r", "lora_alpha", "rank_pattern", "alpha_pattern", "target_modules", "target_parameters", "use_rslora"]
    known += ["modules_to_save", "trainable_token_indices", "init_lora_weights", "layer_replication", "peft_type"]
    known += ["use_dora", "lora_bias", "use_bdlora", "enable_lora", "task_type", "zeta"]
    for _ in range(rng.randrange(1, 4)):
        name = rng.choice(known)
        config[name] = any_value(rng) if rng.random() < 0.5 else rng.choice((None, True, False, 4, 8.0, [], {}, "eva"))
        if name.endswith("pattern") and rng.random() < 0.7:
            config[name] = {random_pattern(rng): rng.choice((2, 4, 8)) for _ in range(rng.randrange(1, 4))}
        if name == "target_modules" and rng.random() < 0.5:
            config[name] = random_pattern(rng)


def random_pattern(rng: random.Random) -> str:
    """Draw a regular expression, or what looks like one."""
    pieces = (
        "q_proj",
        "v",
        "a",
        ".",
        ".*",
        "\\.",
        "(",
        ")",
        "(?:",
        "|",
        "*",
        "+",
        "?",
        "{2}",
        "{,3}",
        "[a-z]",
        "[^.]+",
    )
    return "".join(rng.choice((*pieces, "\\d", "\\b", "^", "$", "layers", "[")) for _ in range(rng.randrange(1, 12)))


def damage_names(rng: random.Random, config: dict[str, Any], tensors: dict[str, kit.Tensor]) -> None:
    """Rename tensors: cut, double or exchange words."""
    for name in rng.sample(list(tensors), rng.choice((1, 1, 2, len(tensors)))):
        words = name.split(".")
        place = rng.randrange(len(words))
        change = rng.randrange(4)
        if change == 0:
            del words[place]
        elif change == 1:
            words.insert(place, rng.choice(words))
        elif change == 2:
            words[place] = rng.choice((*NASTY_TEXT, "weight", "lora_B", "base_layer", "default", "_orig_mod", "bias"))
        else:
            words = words[:place]
        tensors[".".join(words)] = tensors.pop(name)


def damage_shapes(rng: random.Random, config: dict[str, Any], tensors: dict[str, kit.Tensor]) -> None:
    """Give tensors other shapes, types and values."""
    for name in rng.sample(list(tensors), rng.randrange(1, 3)):
        shape = tuple(rng.choice((0, 1, 2, 3, 4, 8, 16)) for _ in range(rng.randrange(5)))
        dtype = rng.choice(("F32", "F64", "F16", "BF16"))
        values = np.random.default_rng(rng.randrange(2**32)).normal(size=shape)
        if values.size and rng.random() < 0.3:
            values.flat[0] = rng.choice((np.nan, np.inf, -np.inf, 1e300, 1e-300, 0.0))
        with np.errstate(all="ignore"):
            tensor = kit.store(values, dtype)
        if rng.random() < 0.3:
            dtype = rng.choice(("F8_E4M3", "I8", "BOOL", "F8_E5M2", "U8", "F8_E8M0"))
            tensor = kit.Tensor(dtype, shape, rng.randbytes(int(np.prod(shape))), values)
        tensors[name] = tensor


def damage_experts(rng: random.Random, config: dict[str, Any], tensors: dict[str, kit.Tensor]) -> None:
    """Declare modules as stacks of experts."""
    config["target_parameters"] = [rng.choice(("self_attn.q_proj.w", "q_proj.w", "self_attn.w", "w"))]
    config["r"] = rng.choice((1, 2, 3, 4))


def add_tensors(rng: random.Random, config: dict[str, Any], tensors: dict[str, kit.Tensor]) -> None:
    """Add tensors that are no factors."""
    words = (
        "lora_magnitude_vector",
        "bias",
        "weight",
        "base_layer.weight",
        "lora_B.bias",
        "lora_diag",
        "inv_freq",
        "x",
    )
    for _ in range(rng.randrange(1, 4)):
        module = rng.choice(("model.layers.0.self_attn.q_proj", "lm_head", "model.embed_tokens", "model.norm", "a"))
        shape = rng.choice(((16,), (16, 16), (4,), ()))
        tensors[f"{kit.PREFIX}{module}.{rng.choice(words)}"] = kit.store(np.full(shape, rng.random()))


def damage_nothing(rng: random.Random, config: dict[str, Any], tensors: dict[str, kit.Tensor]) -> None:
    """Leave the folder sound, for damage to its bytes."""


DAMAGES: tuple[Callable[..., None], ...] = (
    *(damage_config, damage_names, damage_shapes, damage_experts, add_tensors, damage_nothing),
)


def damage_bytes(rng: random.Random, data: bytes) -> bytes:
    """Flip, cut, insert or repeat bytes, mostly in the header."""
    buffer = bytearray(data)
    for _ in range(rng.choice((0, 1, 1, 2, 8))):
        where = rng.randrange(min(len(buffer), rng.choice((9, 400, len(buffer) + 1))) + 1)
        kind = rng.randrange(5)
        if kind == 0 and where < len(buffer):
            buffer[where] = rng.randrange(256)
        elif kind == 1:
            del buffer[where:]
        elif kind == 2:
            buffer[where:where] = rng.choice((rng.randbytes(3), *NASTY_BYTES))
        elif kind == 3:
            buffer[0:8] = struct.pack("<Q", rng.choice((0, 1, 2, len(data), 2**20, 2**63, rng.randrange(2000))))
        else:
            buffer[where:where] = buffer[where : where + rng.randrange(60)]
    return bytes(buffer)


def damage_header(rng: random.Random, tensors: dict[str, kit.Tensor]) -> bytes:
    """Pack tensors under a header with changed entries."""
    entries: dict[str, Any] = kit.describe(tensors)
    for name in rng.sample(list(entries), min(len(entries), rng.randrange(3))):
        field = rng.choice(("dtype", "shape", "data_offsets", "extra", None))
        if field is None:
            entries[name] = any_value(rng)
        else:
            entries[name][field] = any_value(rng)
    if rng.random() < 0.2:
        entries["__metadata__"] = any_value(rng)
    return kit.frame(json.dumps(entries), b"".join(tensor.data for tensor in tensors.values()))


def write_input(number: int, seed: int, folder: Path) -> None:
    """Write input ``number`` of a seed into an empty folder."""
    rng = random.Random(f"{seed}/{number}")
    config, tensors = kit.settings(), kit.name_tensors(kit.standard(dtype=rng.choice(("F32", "BF16", "F16", "F64"))))
    for damage in rng.sample(DAMAGES, rng.choice((1, 1, 2))):
        damage(rng, config, tensors)
    try:
        weights = damage_header(rng, tensors) if rng.random() < 0.15 else kit.pack(tensors)
    except UnicodeEncodeError:
        weights = kit.pack(kit.name_tensors(kit.standard()))
    if rng.random() < 0.25:
        weights = damage_bytes(rng, weights)
    text = json.dumps(config).encode()
    if rng.random() < 0.1:
        text = damage_bytes(rng, text)
    (folder / rng.choice((kit.CONFIG,) * 19 + ("adapter_config.jsn",))).write_bytes(text)
    _write_weights(rng, folder, weights)


def _write_weights(rng: random.Random, folder: Path, weights: bytes) -> None:
    if rng.random() < 0.9:
        (folder / kit.WEIGHTS).write_bytes(weights)
        return
    shard = rng.choice(("adapter_model-00001-of-00001.safetensors", "../x", "w.safetensors", "a\x1b"))
    names = list(kit.name_tensors(kit.standard()))[: rng.randrange(9)]
    index = {"weight_map": dict.fromkeys(names, shard)} if rng.random() < 0.8 else any_value(rng)
    (folder / f"{kit.WEIGHTS}.index.json").write_bytes(damage_bytes(rng, json.dumps(index).encode()))
    (folder / Path(shard).name).write_bytes(weights)


def check_answer(folder: Path) -> str:
    """Inspect a folder and return its status; raise if the answer breaks the contract."""
    inspection = inspect_adapter(folder)
    report = inspection.to_dict()
    text = json.dumps(report, allow_nan=False)
    status, codes = report["status"], report["codes"]
    assert status in checker.EXIT_CODES, status
    assert set(codes) <= set(CODES), codes
    assert all(code[0] in checker.CODE_LETTERS[status] for code in codes), (status, codes)
    assert status == "ok" or any(code[0] == status[0].upper() for code in codes), (status, codes)
    assert not checker.UNSAFE_TEXT.search(report["message"]), report["message"]
    assert report["message"], codes
    assert "Traceback" not in text
    if status == "ok":
        assert report["adapter"]["num_modules"] == len(report["adapter"]["modules"]) > 0
    told = [inspection.tell()]
    if inspection.modules and status != "error":
        for runtime in RUNTIMES:
            served = served_update(inspection, runtime)
            json.dumps(served.to_dict(), allow_nan=False)
            told += [served.tell(), *served.refusals, *served.warnings]
    assert not any(checker.UNSAFE_TEXT.search(line) for line in told), told
    return status


def run(count: int, seed: int, numbers: Any = None) -> Counter[str]:
    """Check inputs and return how often each status came; raises on the first that breaks the contract."""
    statuses: Counter[str] = Counter()
    scratch = Path(tempfile.mkdtemp(prefix="fuzz-"))
    try:
        for number in range(count) if numbers is None else numbers:
            folder = scratch / "adapter"
            folder.mkdir()
            write_input(number, seed, folder)
            started = time.process_time()  # not by the clock: other work on the machine is no fault of the reader
            try:
                statuses[check_answer(folder)] += 1
            except BaseException:
                print(f"input {number} of seed {seed} breaks the contract", file=sys.stderr)
                raise
            if time.process_time() - started > SLOW_S:
                raise TimeoutError(f"input {number} of seed {seed} took more than {SLOW_S} s")
            shutil.rmtree(folder)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return statuses


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start", type=int, default=0, help="number of the first input, to go on where a run stopped")
    parser.add_argument("--only", type=int, help="check this input alone")
    args = parser.parse_args()
    started = time.monotonic()
    statuses: Counter[str] = Counter()
    numbers = range(args.start, args.start + args.count) if args.only is None else [args.only]
    for first in range(0, len(numbers), _TOLD):
        statuses += run(0, args.seed, numbers[first : first + _TOLD])
        print(f"{sum(statuses.values())} of {len(numbers)} answered", file=sys.stderr, flush=True)
    print(f"{sum(statuses.values())} inputs, seed {args.seed}: {dict(statuses)}, {time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
