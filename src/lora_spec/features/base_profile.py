"""The base profile: what a pair's base target says about any adapter, in one safetensors file.

Rows of traced factors are stored as one signed byte per number with one scale per row: the rounding, at most 1/254 of
a row's largest number, is far below what the terms left out of each gradient cost, and twice as many positions fit.
"""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lora_spec.adapter import InspectedModule, Inspection
from lora_spec.base_trace import OTHER, BaseTrace
from lora_spec.errors import ResultError
from lora_spec.features.base_profile_header import BaseProfileHeader, ModuleEntry, weights_of
from lora_spec.features.families import THIRDS
from lora_spec.printing import printable
from lora_spec.regular_file import read_regular_file
from lora_spec.results import write_bytes_atomically
from lora_spec.strict_json import parse_own
from lora_spec.typed import check_type

Array = NDArray[np.float32]
KIND = "base_profile"
SCHEMA_VERSION = "1"
_HEADER_KEY = "lora_spec"
_MAX_BYTES = 2 << 30
_ROOT = "model."


class BaseProfileError(ResultError):
    """A base profile is damaged, or is not one of the base that an adapter was made for."""


@dataclass(frozen=True)
class ProfiledModule:
    """One module of the base.

    Parameters
    ----------
    directions, energies
        Largest eigenpairs of the input's second moment, shapes ``(in_features, k)`` and ``(k,)``.
    inputs, gradients
        Stored factors of the margin's gradient, shape ``(num_positions, num_pairs, features)``; decoded by the scales
        of their rows, shape ``(num_positions, num_pairs)``.
    """

    entry: ModuleEntry
    directions: NDArray[np.floating]
    energies: NDArray[np.floating]
    inputs: NDArray[Any]
    input_scales: Array
    gradients: NDArray[Any]
    gradient_scales: Array

    def factors(self) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
        """Return inputs and gradients as floats."""
        return self.inputs * self.input_scales[..., None], self.gradients * self.gradient_scales[..., None]


@dataclass(frozen=True)
class BaseProfile:
    """A profile as read: its modules by name, and the traced positions.

    Parameters
    ----------
    margins
        Best minus second-best logit, shape ``(num_positions,)``.
    drafter_choices
        0, 1 or 2: the drafter's first choice is the target's best token, its second-best, or another.
    places
        Prompt, output position, best and second-best token of each, shape ``(num_positions, 4)``.
    """

    header: BaseProfileHeader
    modules: Mapping[str, ProfiledModule]
    margins: Array
    drafter_choices: NDArray[np.uint8]
    places: NDArray[np.int32]
    sha256: str = ""

    def find(self, module: InspectedModule) -> ProfiledModule | None:
        """Return the module that an update changes, None where the base has none of that name and size."""
        for name in (module.name, f"{_ROOT}{module.name}", module.name.removeprefix(_ROOT)):
            found = self.modules.get(name)
            if found is not None:
                sizes = (found.entry["in_features"], found.entry["out_features"])
                return found if sizes == (module.in_features, module.out_features) else None
        return None

    def refuse_misfit(self, inspection: Inspection) -> None:
        """Refuse an adapter that changes what this base does not have.

        Raises
        ------
        BaseProfileError
            With the first such module and how many there are.
        """
        misfits = [module for module in inspection.modules if self.find(module) is None]
        if misfits:
            first = misfits[0]
            raise BaseProfileError(
                f"the base profile of {printable(self.header['target']['name'])} has no module "
                f"{printable(first.name)} of {first.in_features} inputs and {first.out_features} outputs "
                f"({len(misfits)} of {len(inspection.modules)} modules do not fit); give the profile of the base that "
                "the adapter was made for"
            )

    def refuse_other_base(self, folder: Path) -> None:
        """Refuse a model folder whose weights are not those that the profile was recorded on.

        Raises
        ------
        BaseProfileError
            Their SHA-256 differ.
        """
        recorded = self.header["target"]
        if weights_of(folder) != recorded["sha256"]:
            raise BaseProfileError(
                f"{printable(folder)}: its weights are not those of {printable(recorded['name'])} that the base "
                "profile was recorded on; give the profile of this base"
            )

    def third(self, module: ProfiledModule) -> str:
        """Return the third of the base's depth that a module stands in."""
        return THIRDS[min(2, 3 * module.entry["layer"] // self.header["num_layers"])]


def profile_of(trace: BaseTrace, header: BaseProfileHeader) -> BaseProfile:
    """Return a trace as a profile, with nothing rounded."""
    ones = np.ones((len(trace.margins), trace.modules[0].inputs.shape[1]), dtype=np.float32)
    modules = {}
    for module in trace.modules:
        moments = trace.moments[module.input_name]
        entry = header["modules"][module.name]
        modules[module.name] = ProfiledModule(
            entry, moments.directions, moments.energies, module.inputs, ones, module.gradients, ones
        )
    return BaseProfile(header, modules, trace.margins, trace.drafter_choices, trace.places)


def write_base_profile(path: Path, profile: BaseProfile) -> None:
    """Write a profile atomically: rows as bytes with a scale, directions in float16, each input's moments once."""
    from safetensors.numpy import save

    tensors: dict[str, NDArray[Any]] = {
        "margins": profile.margins.astype(np.float32),
        "drafter_choices": profile.drafter_choices,
        "places": profile.places,
    }
    for name, module in profile.modules.items():
        for key, values in zip(("inputs", "gradients"), module.factors(), strict=True):
            tensors[f"{name}/{key}"], tensors[f"{name}/{key}.scales"] = quantise_rows(values)
        if module.entry["input"] == name:
            tensors[f"{name}/directions"] = np.ascontiguousarray(module.directions, dtype=np.float16)
            tensors[f"{name}/energies"] = module.energies.astype(np.float32)
    text = json.dumps(profile.header, sort_keys=True, allow_nan=False)
    write_bytes_atomically(path, save(tensors, metadata={_HEADER_KEY: text}))


def quantise_rows(values: NDArray[np.floating]) -> tuple[NDArray[np.int8], Array]:
    """Return whole numbers from -127 to 127 and the scale of each row: ``values`` is about ``whole * scale``."""
    scales = np.abs(values).max(axis=-1) / 127
    whole = np.rint(values / np.where(scales > 0, scales, 1)[..., None])
    return whole.astype(np.int8), scales.astype(np.float32)


def read_base_profile(path: Path) -> BaseProfile:
    """Return a profile; the last one read is kept, since one serves many adapters.

    Raises
    ------
    BaseProfileError
        The file cannot be read, or is not whole and consistent.
    """
    try:
        found = path.stat()
        return _read(path, found.st_mtime_ns, found.st_size)
    except (OSError, ValueError) as err:
        reason = getattr(err, "strerror", None) or err
        raise BaseProfileError(f"{path}: no base profile can be read ({reason}); check the path") from err


@lru_cache(maxsize=1)
def _read(path: Path, modified_ns: int, size: int) -> BaseProfile:
    """Read a file; time and size are there to tell a changed file from the one that is kept."""
    data = read_regular_file(path, _MAX_BYTES)
    try:
        return _parse(data)
    except (ResultError, ValueError, KeyError, IndexError) as err:
        raise BaseProfileError(f"{path}: not a whole base profile ({err}); make it again") from err


def _parse(data: bytes) -> BaseProfile:
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        tensors = load(data)
    except SafetensorError as err:
        raise ValueError(str(err)) from err
    size = int.from_bytes(data[:8], "little")
    header = parse_own(json.loads(data[8 : 8 + size])["__metadata__"][_HEADER_KEY].encode())
    check_type(BaseProfileHeader, header, "header")
    if (header["kind"], header["schema_version"]) != (KIND, SCHEMA_VERSION):
        raise ValueError(f"it holds {printable(header['kind'])} of schema {printable(header['schema_version'])}")
    margins, choices = tensors["margins"], tensors["drafter_choices"]
    modules = {name: _module(name, header, tensors, len(margins)) for name in header["modules"]}
    profile = BaseProfile(header, modules, margins, choices, tensors["places"], hashlib.sha256(data).hexdigest())
    _check(profile)
    return profile


def _module(
    name: str, header: BaseProfileHeader, tensors: Mapping[str, NDArray[Any]], num_positions: int
) -> ProfiledModule:
    entry = header["modules"][name]
    pairs = (num_positions, header["settings"]["num_pairs"])
    shared, features = entry["input"], {"inputs": entry["in_features"], "gradients": entry["out_features"]}
    directions, energies = tensors[f"{shared}/directions"], tensors[f"{shared}/energies"]
    shapes = [
        (directions.shape, (entry["in_features"], len(energies))),
        *((tensors[f"{name}/{key}"].shape, (*pairs, width)) for key, width in features.items()),
        *((tensors[f"{name}/{key}.scales"].shape, pairs) for key in features),
    ]
    if wrong := [pair for pair in shapes if pair[0] != pair[1]]:
        raise ValueError(f"{printable(name)} has a tensor of shape {wrong[0][0]} where {wrong[0][1]} belongs")
    stored = {key: tensors[f"{name}/{key}"] for key in (*features, *(f"{key}.scales" for key in features))}
    finite = [directions, energies, *stored.values()]
    if not all(np.isfinite(values).all() for values in finite):
        raise ValueError(f"{printable(name)} holds NaN or infinity")
    return ProfiledModule(
        entry,
        directions,
        energies,
        stored["inputs"],
        stored["inputs.scales"],
        stored["gradients"],
        stored["gradients.scales"],
    )


def _check(profile: BaseProfile) -> None:
    """Refuse positions and places that cannot be."""
    margins, choices = profile.margins, profile.drafter_choices
    if (
        margins.ndim != 1
        or not margins.size
        or margins.shape != choices.shape
        or profile.places.shape != (*choices.shape, 4)
    ):
        raise ValueError("its positions do not agree in number")
    if not np.isfinite(margins).all() or margins.min() < 0 or choices.max() > OTHER:
        raise ValueError("a margin is negative or a drafter's choice is none")
    for name, module in profile.modules.items():
        entry = module.entry
        if not 0 <= entry["layer"] < profile.header["num_layers"]:
            raise ValueError(f"{printable(name)} lies in no layer of the base")
        if min(entry["input_energy"], entry["output_energy"]) < 0 or not math.isfinite(entry["input_energy"]):
            raise ValueError(f"{printable(name)} has an impossible energy")
