"""The header of a base profile: which models, which prompts, which modules."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from typing_extensions import TypedDict

from lora_spec.adapter.names import layer_of
from lora_spec.base_trace import BaseTrace
from lora_spec.provenance import sha256_of_file


class ModelIdentity(TypedDict):
    """A model by its name and the SHA-256 of each of its weight files."""

    name: str
    sha256: list[str]


class ModuleEntry(TypedDict):
    """One module; energies are means of squared norms over all output positions.

    ``input`` names the first module that reads the same input. ``kept_share`` is the share of the squared norm of the
    margin's gradient that the stored factors hold.
    """

    input: str
    layer: int
    in_features: int
    out_features: int
    input_energy: float
    output_energy: float
    kept_share: float


class TraceAmounts(TypedDict):
    """How much was recorded: the ``base_profile`` block of models.yaml."""

    num_prompts: int
    max_tokens: int
    num_positions: int
    num_pairs: int
    num_directions: int
    seed: int


class BaseProfileHeader(TypedDict):
    """The envelope of a result, its payload lying open in it."""

    schema_version: str
    kind: str
    evidence: Literal["measured"]
    tier: str
    provenance: dict[str, Any]
    target: ModelIdentity
    drafter: ModelIdentity
    prompts_sha256: list[str]
    dtype: str
    settings: TraceAmounts
    num_layers: int
    num_tokens: int
    modules: dict[str, ModuleEntry]


def weights_of(folder: Path) -> list[str]:
    """Return the SHA-256 of each weight file of a model, in order of their names."""
    return [sha256_of_file(path) for path in sorted(folder.glob("*.safetensors"))]


def identify_model(name: str, folder: Path) -> ModelIdentity:
    """Return a model's identity from its folder."""
    return {"name": name, "sha256": weights_of(folder)}


def module_entries(trace: BaseTrace) -> dict[str, ModuleEntry]:
    """Return the entries of all traced modules by name."""
    return {
        module.name: {
            "input": module.input_name,
            "layer": layer_of(module.name)[1],
            "in_features": module.inputs.shape[-1],
            "out_features": module.gradients.shape[-1],
            "input_energy": trace.moments[module.input_name].total,
            "output_energy": module.output_energy,
            "kept_share": module.kept_share,
        }
        for module in trace.modules
    }


def header_of(trace: BaseTrace, **circumstances: Any) -> BaseProfileHeader:
    """Return the header of a trace; ``circumstances`` are the keys that the trace does not know."""
    known: Mapping[str, Any] = {
        "schema_version": "1",
        "kind": "base_profile",
        "evidence": "measured",
        "num_layers": trace.num_layers,
        "num_tokens": trace.num_tokens,
        "modules": module_entries(trace),
    }
    return {**known, **circumstances}
