"""Inspect one adapter folder: every fault into a code, every update into its rank, scale and spectrum.

The life of an inspection: list the folder, read the config, open the weights, classify the tensors, pair the
factors, measure. Each step records what it finds; only a missing step before it ends the inspection early.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from lora_spec.adapter.classify import Classified, classify_tensors
from lora_spec.adapter.config import LoraSettings, interpret_config, is_mlx_config, read_config
from lora_spec.adapter.declared import check_declared, check_layers, check_token_rows
from lora_spec.adapter.files import RegularFile
from lora_spec.adapter.findings import Findings
from lora_spec.adapter.folder import CONFIG_NAME, Folder, explain_missing, list_folder, note_other_files
from lora_spec.adapter.inspected import InspectedModule, Inspection
from lora_spec.adapter.limits import WorkBudget
from lora_spec.adapter.modules import Module, build_modules
from lora_spec.adapter.shards import WeightFiles, open_weights
from lora_spec.errors import AdapterError


class OpenAdapter(NamedTuple):
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
        config, settings = _read_settings(folder, weights, findings)
        is_foreign_config = "E_MLX_FORMAT" in findings.codes
        used = {CONFIG_NAME}
        if not is_foreign_config:
            used |= open_weights(folder, weights, findings)
        if not (folder.has_config and folder.has_weights) and not is_foreign_config:
            explain_missing(folder, findings)
        note_other_files(folder, used, findings)
        classified, modules = Classified(), []
        if settings is not None and folder.has_weights and not _is_unreadable(findings):
            classified, modules = _read_structure(weights, settings, findings)
        yield OpenAdapter(folder, config, settings, weights, classified, modules, findings)


def _read_settings(
    folder: Folder, weights: WeightFiles, findings: Findings
) -> tuple[dict[str, Any], LoraSettings | None]:
    if not folder.has_config:
        return {}, None
    try:
        file = RegularFile(folder.path / CONFIG_NAME)
        weights.watch(file)
        config = read_config(file)
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


def _read_structure(
    weights: WeightFiles, settings: LoraSettings, findings: Findings
) -> tuple[Classified, list[Module]]:
    if not weights.entries:
        what = "holds no tensors (saved under ZeRO-3 without gathering?); gather the weights and save again"
        findings.add("E_EMPTY_ADAPTER", weights.files[0].name if weights.files else "", what)
        return Classified(), []
    found = classify_tensors(weights.entries, settings, findings)
    if not found.pairs and not {"E_MLX_FORMAT", "E_UNSUPPORTED_FORMAT", "E_KEYS_MANGLED"} & set(findings.codes):
        findings.add("E_EMPTY_ADAPTER", weights.files[0].name, "holds no LoRA factors at all")
    modules = build_modules(found, settings, findings)
    check_declared(found.pairs, settings, findings)
    check_layers(found.pairs, findings)
    check_token_rows(found, settings, findings)
    return found, modules


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
    if not header_only:
        spectra = _measure(opened)
    try:
        opened.weights.refuse_if_changed()
    except AdapterError as err:
        opened.findings.add_error(err)
        spectra = {}
    is_complete = spectra and len(spectra) == len(opened.modules) and "A_UNKNOWN_TENSOR" not in opened.findings.codes
    if is_complete and not any(values.any() for values in spectra.values()):
        opened.findings.add("N_ZERO_UPDATE", "", "every update is exactly zero: the adapter changes nothing")
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
        other_names=tuple(entry.name for entry in opened.classified.others),
    )


def _measure(opened: OpenAdapter) -> dict[str, Any]:
    """Return the spectra, none if anything is wrong; every tensor is searched for values that are not finite."""
    # Imported here: header-only triage must not pay for numpy.
    from lora_spec.adapter.measure import check_finite, known_finite, measure_modules

    weights, findings = opened.weights, opened.findings
    budget = WorkBudget(sum(file.bytes_on_disk for file in weights.files))
    try:
        spectra = {} if findings.has_errors else measure_modules(opened.modules, weights, findings, budget)
        searched = known_finite(opened.modules, spectra)
        check_finite((entry for entry in weights.entries if entry.name not in searched), weights, findings)
    except AdapterError as err:
        findings.add_error(err)
        return {}
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
        key_b=module.b.name,
        is_embedding=module.is_embedding,
        is_stacked=module.layout != "plain" and (module.num_experts > 1 or module.type == "experts"),
        singular_values=singular_values,
    )


def _message(findings: Findings) -> str:
    return findings.message() or "scale*B*A is the change that a server applies to the base model"
