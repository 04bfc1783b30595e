"""Compare what a config declares with what the file holds: modules, layers, token rows."""

from collections.abc import Iterable

from lora_spec.adapter.classify import Classified
from lora_spec.adapter.config import LoraSettings
from lora_spec.adapter.findings import Findings
from lora_spec.adapter.header import TensorEntry
from lora_spec.adapter.names import layer_of, module_type, parse_name, without_base_layer
from lora_spec.adapter.patterns import matches_whole_name


def covers(entry: str, name: str) -> bool:
    """Tell whether a list entry covers a module: it equals the name or ends it at a dot."""
    return name == entry or name.endswith(f".{entry}")


def parameter_parents(settings: LoraSettings) -> tuple[str, ...]:
    """Return the modules that hold the parameters named in ``target_parameters``."""
    return tuple({entry.rpartition(".")[0] for entry in settings.target_parameters} - {""})


def is_expert_stack(module: str, settings: LoraSettings) -> bool:
    """Tell whether the factors of a module stack experts."""
    return any(covers(parent, without_base_layer(module)) for parent in parameter_parents(settings))


def lookup_names(module: str, settings: LoraSettings) -> list[str]:
    """Return the names under which patterns are looked up: the module's, and those of the parameter it stands for.

    PEFT looks stacked experts up by parameter. Which one a wrapper holds is not written anywhere; as in vLLM, the
    inner wrapper of two is gate_up_proj and the outer one down_proj.
    """
    bare = without_base_layer(module)
    names = [module, bare]
    held = [entry for entry in settings.target_parameters if covers(entry.rpartition(".")[0], bare)]
    parameters = [entry.rpartition(".")[2] for entry in held if "." in entry]
    if len(parameters) > 1:
        wanted = "gate_up_proj" if module != bare else "down_proj"
        parameters = [parameter for parameter in parameters if parameter == wanted]
    return list(dict.fromkeys([*names, *(f"{bare}.{parameter}" for parameter in parameters)]))


def check_declared(modules: Iterable[str], settings: LoraSettings, findings: Findings) -> None:
    """Record modules that have factors but are not declared: a server may drop them."""
    declared = settings.target_modules
    names = [module for module in modules if not is_expert_stack(module, settings)]
    if declared is None:
        return
    if isinstance(declared, str):
        matched = matches_whole_name(declared, names)
        missing = [] if matched is None else [name for name in names if not matched[name]]
    else:
        ends = set(declared)
        missing = [name for name in names if not _ends(name) & ends]
    for name in missing:
        findings.add("A_UNDECLARED_MODULE", name, "has factors but target_modules does not cover it")


def _ends(name: str) -> set[str]:
    """Return the name and every part of it that begins after a dot."""
    return {name, *(name[place + 1 :] for place, character in enumerate(name) if character == ".")}


def check_layers(modules: Iterable[str], findings: Findings) -> None:
    """Note layer lists whose layers do not all have the same module types."""
    stacks: dict[str, dict[int, set[str]]] = {}
    for module in modules:
        place = layer_of(module)
        if place:
            stacks.setdefault(place[0], {}).setdefault(place[1], set()).add(module_type(module))
    for stack, layers in stacks.items():
        if len({frozenset(types) for types in layers.values()}) > 1:
            findings.add("N_UNEVEN_LAYERS", stack, "its layers do not all have the same module types")


def check_token_rows(found: Classified, settings: LoraSettings, findings: Findings) -> None:
    """Record replaced rows whose number is not the declared one."""
    if not settings.token_indices:
        return
    for entry in found.others:
        if "trainable_tokens_delta" in entry.name:
            _check_rows(entry, settings, findings)


def _check_rows(entry: TensorEntry, settings: LoraSettings, findings: Findings) -> None:
    module = parse_name(entry.name).module
    owner = module.removesuffix(".trainable_tokens_delta").removesuffix(".token_adapter")
    declared = [rows for name, rows in settings.token_indices.items() if not name or covers(name, owner)]
    rows = entry.shape[0] if entry.shape else 0
    if len(entry.shape) != 2:
        findings.add("E_SHAPE", entry.name, f"has shape {list(entry.shape)}, not one row for each token")
    elif rows not in declared:
        wanted = declared[0] if declared else 0
        what = f"holds {rows} rows but trainable_token_indices declares {wanted}; save the adapter again"
        findings.add("E_SHAPE", entry.name, what)
