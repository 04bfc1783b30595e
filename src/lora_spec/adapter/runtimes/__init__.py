"""Says what each server would really apply of an adapter; knows the rules of servers, runs none of them."""

from collections.abc import Callable

from lora_spec.adapter.inspected import Inspection
from lora_spec.adapter.runtimes import llama_cpp, lorax, peft, sglang, vllm
from lora_spec.adapter.runtimes.base import ServedUpdate, Serving, compare

RUNTIMES: dict[str, Callable[[Inspection], Serving]] = {
    "vllm": vllm.serve,
    "sglang": sglang.serve,
    "llama.cpp": llama_cpp.serve,
    "peft": peft.serve,
    "lorax": lorax.serve,
}


def served_update(inspection: Inspection, runtime: str) -> ServedUpdate:
    """Return the update that a runtime would apply, beside the intended one; ``runtime`` is a key of RUNTIMES."""
    return compare(inspection, runtime, RUNTIMES[runtime](inspection))


__all__ = ["RUNTIMES", "ServedUpdate", "served_update"]
