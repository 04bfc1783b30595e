"""Inspect one adapter folder: every fault into a code, every update into its rank, scale and spectrum.

The life of an inspection: list the folder, read the config, open the weights, classify the tensors, pair the
factors, measure. Each step records what it finds; only a missing step before it ends the inspection early.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lora_spec.adapter.classify import Classified, classify_tensors
from lora_spec.adapter.config import LoraSettings, interpret_config, is_mlx_config, read_config
from lora_spec.adapter.declared import check_declared, check_layers, check_token_rows
from lora_spec.adapter.findings import Findings
from lora_spec.adapter.folder import CONFIG_NAME, Folder, explain_missing, list_folder, note_other_files
from lora_spec.adapter.modules import Module, build_modules
from lora_spec.adapter.shards import WeightFiles, open_weights
from lora_spec.errors import AdapterError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SCHEMA_VERSION = "1"


@dataclass(frozen=True)
class InspectedModule:
    """One update scale * B @ A as inspected.

    Parameters
    ----------
    key
        The name that the file gives to A.
    singular_values
        Of scale * B @ A, descending, shape ``(min(rank, in_features, out_features),)``; None after a header-only
        inspection.
    """

    name: str
    type: str
    layer: int | None
    stack: str | None
    rank: int
    scale: float
    in_features: int
    out_features: int
    dtype: str
    key: str = ""
    is_embedding: bool = False
    singular_values: "NDArray[np.float64] | None" = field(default=None, repr=False, compare=False)

    @property
    def fro_norm(self) -> float | None:
        """Return the Frobenius norm of the update."""
        return None if self.singular_values is None else math.hypot(*self.singular_values.tolist())

    @property
    def spectral_norm(self) -> float | None:
        """Return the largest singular value of the update."""
        return None if self.singular_values is None else float(self.singular_values[0])

    @property
    def stable_rank(self) -> float | None:
        """Return (fro_norm / spectral_norm)^2, 0 for a zero update."""
        if self.singular_values is None:
            return None
        return (self.fro_norm / self.spectral_norm) ** 2 if self.spectral_norm else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON data in the words of the inspection contract."""
        data: dict[str, Any] = {"name": self.name, "rank": self.rank, "scale": self.scale}
        if self.singular_values is not None:
            data |= {name: getattr(self, name) for name in ("fro_norm", "spectral_norm", "stable_rank")}
        return data | {
            "type": self.type,
            "layer": self.layer,
            "in_features": self.in_features,
            "out_features": self.out_features,
        }


@dataclass(frozen=True)
class Inspection:
    """What an inspection found: status, codes, one message, and the modules where they could be read."""

    path: Path
    status: str
    codes: tuple[str, ...]
    message: str
    modules: tuple[InspectedModule, ...]
    is_header_only: bool
    num_bytes: int
    file_names: tuple[str, ...]
    config: dict[str, Any] = field(repr=False)
    findings: Findings = field(repr=False, compare=False)

    @property
    def total_fro_norm(self) -> float | None:
        """Return the root of the sum of squared Frobenius norms, None after a header-only inspection."""
        return None if self.is_header_only else math.hypot(*(module.fro_norm for module in self.modules))

    def raise_if_unusable(self) -> None:
        """Raise AdapterError, with the codes, unless the status is ``ok`` or ``abstain`` with modules measured."""
        if self.status == "error" or not self.modules:
            raise AdapterError(self.message, codes=self.codes)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object of the inspection contract."""
        return {
            "schema_version": SCHEMA_VERSION,
            "status": self.status,
            "codes": list(self.codes),
            "message": self.message,
            "header_only": self.is_header_only,
            "adapter": self._adapter() if self.modules and self.status != "error" else None,
            "findings": self.findings.to_list(),
        }

    def _adapter(self) -> dict[str, Any]:
        return {
            "num_modules": len(self.modules),
            "ranks": sorted({module.rank for module in self.modules}),
            "module_types": sorted({module.type for module in self.modules}),
            "total_fro_norm": self.total_fro_norm,
            "num_bytes": self.num_bytes,
            "dtypes": sorted({module.dtype for module in self.modules}),
            "modules": [module.to_dict() for module in self.modules],
        }


@dataclass
class OpenAdapter:
    """An adapter whose headers and config are read; its files are open, its values not yet read."""

    folder: Folder
    config: dict[str, Any]
    settings: LoraSettings | None
    weights: WeightFiles
    classified: Classified
    modules: list[Module]
    findings: Findings


@contextmanager
def open_adapter(path: Path) -> Iterator[OpenAdapter]:
    """Open an adapter as far as its headers; what is wrong is recorded in ``findings``, not raised.

    Raises
    ------
    AdapterError
        The path is no folder that can be listed.
    """
    folder = list_folder(path)
    findings = Findings()
    with WeightFiles() as weights:
        config, settings = _read_settings(folder, findings)
        is_foreign_config = "E_MLX_FORMAT" in findings.codes
        used = {CONFIG_NAME}
        if not is_foreign_config:
            used |= open_weights(folder, weights, findings)
        if not (folder.has_config and folder.has_weights) and not is_foreign_config:
            explain_missing(folder, findings)
        note_other_files(folder, used, findings)
        opened = OpenAdapter(folder, config, settings, weights, Classified(), [], findings)
        if settings is not None and folder.has_weights and not _is_unreadable(findings):
            _read_structure(opened, settings)
        yield opened


def _read_settings(folder: Folder, findings: Findings) -> tuple[dict[str, Any], LoraSettings | None]:
    if not folder.has_config:
        return {}, None
    try:
        config = read_config(folder.path / CONFIG_NAME)
    except AdapterError as err:
        findings.add_error(err)
        return {}, None
    if is_mlx_config(config):
        what = "was written by MLX (scale not divided by the rank, factors transposed); convert the adapter to PEFT"
        findings.add("E_MLX_FORMAT", CONFIG_NAME, what)
        return config, None
    return config, interpret_config(config, findings)


def _is_unreadable(findings: Findings) -> bool:
    """Tell whether the headers themselves failed, so that nothing can be said about tensors."""
    fatal = {"E_HEADER", "E_OFFSETS", "E_TRUNCATED", "E_PICKLE", "E_LFS_POINTER", "E_UNSUPPORTED_FORMAT"}
    fatal |= {"E_UNSAFE_FILE", "E_SHARDS", "E_NOT_ADAPTER"}
    return bool(fatal & set(findings.codes)) or _is_header_duplicate(findings)


def _is_header_duplicate(findings: Findings) -> bool:
    # Before any tensor is classified, this code can only come from a header or an index.
    return "E_DUPLICATE_KEY" in findings.codes


def _read_structure(opened: OpenAdapter, settings: LoraSettings) -> None:
    findings, entries = opened.findings, opened.weights.entries
    if not entries:
        what = "holds no tensors (saved under ZeRO-3 without gathering?); gather the weights and save again"
        findings.add("E_EMPTY_ADAPTER", opened.weights.files[0].name if opened.weights.files else "", what)
        return
    opened.classified = classify_tensors(entries, settings, findings)
    if not opened.classified.pairs and not {"E_MLX_FORMAT", "E_UNSUPPORTED_FORMAT", "E_KEYS_MANGLED"} & set(
        findings.codes
    ):
        findings.add("E_EMPTY_ADAPTER", opened.weights.files[0].name, "holds no LoRA factors at all")
    opened.modules = build_modules(opened.classified, settings, findings)
    check_declared(opened.classified.pairs, settings, findings)
    check_layers(opened.classified.pairs, findings)
    check_token_rows(opened.classified, settings, findings)


def inspect_adapter(path: Path, *, header_only: bool = False) -> Inspection:
    """Return what a folder holds, as codes and numbers; never raises for anything that the folder contains.

    Parameters
    ----------
    path
        The adapter's folder. Nothing outside of it is read, except where a file in it is a link.
    header_only
        Read config and headers only: no norms, and values that are not finite stay unnoticed.
    """
    try:
        with open_adapter(path) as opened:
            return _inspect_opened(path, opened, header_only=header_only)
    except AdapterError as err:
        findings = Findings()
        findings.add_error(err)
        return Inspection(
            path=path,
            status=findings.status,
            codes=findings.codes,
            message=_message(findings),
            modules=(),
            is_header_only=header_only,
            num_bytes=0,
            file_names=(),
            config={},
            findings=findings,
        )


def _inspect_opened(path: Path, opened: OpenAdapter, *, header_only: bool) -> Inspection:
    spectra: dict[str, Any] = {}
    if not header_only and not opened.findings.has_errors:
        spectra = _measure(opened)
    modules = tuple(
        _inspected(module, spectra.get(module.name))
        for module in opened.modules
        if header_only or module.name in spectra
    )
    return Inspection(
        path=path,
        status=opened.findings.status,
        codes=opened.findings.codes,
        message=_message(opened.findings),
        modules=modules,
        is_header_only=header_only,
        num_bytes=sum(file.size for file in opened.weights.files),
        file_names=tuple(file.name for file in opened.weights.files),
        config=opened.config,
        findings=opened.findings,
    )


def _measure(opened: OpenAdapter) -> dict[str, Any]:
    # Imported here: header-only triage must not pay for numpy.
    from lora_spec.adapter.measure import check_others, measure_modules

    try:
        spectra = measure_modules(opened.modules, opened.weights, opened.findings)
        check_others(opened.classified.others, opened.weights, opened.findings)
        opened.weights.refuse_if_changed()
    except AdapterError as err:
        opened.findings.add_error(err)
        return {}
    if spectra and not any(values.any() for values in spectra.values()):
        opened.findings.add("N_ZERO_UPDATE", "", "every update is exactly zero: the adapter changes nothing")
    return spectra


def _inspected(module: Module, singular_values: Any) -> InspectedModule:
    return InspectedModule(
        name=module.name,
        type=module.type,
        layer=module.layer,
        stack=module.stack,
        rank=module.rank,
        scale=module.scale,
        in_features=module.in_features,
        out_features=module.out_features,
        dtype=module.a.dtype if module.a.dtype == module.b.dtype else f"{module.a.dtype}+{module.b.dtype}",
        key=module.a.name,
        is_embedding=module.is_embedding,
        singular_values=singular_values,
    )


def _message(findings: Findings) -> str:
    return findings.message() or "scale*B*A is the change that a server applies to the base model"
