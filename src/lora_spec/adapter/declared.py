"""Compare what a config declares with what the file holds: modules, layers, token rows."""

from collections.abc import Iterable

from lora_spec.adapter.classify import Classified
from lora_spec.adapter.config import LoraSettings
from lora_spec.adapter.findings import Findings
from lora_spec.adapter.header import TensorEntry
from lora_spec.adapter.names import layer_of, module_type, name_ends, parse_name, without_base_layer
from lora_spec.adapter.patterns import matches_whole_name


def is_expert_stack(module: str, settings: LoraSettings) -> bool:
    """Tell whether the factors of a module stack experts: it ends with the parent of a ``target_parameters`` entry."""
    parents = settings.parameters_by_parent
    return bool(parents) and any(end in parents for end in name_ends(without_base_layer(module)))


def _held_parameters(bare: str, settings: LoraSettings) -> list[str]:
    """Return the names of the ``target_parameters`` that a module holds."""
    parents = settings.parameters_by_parent
    held = [parameter for end in name_ends(bare) for parameter in parents.get(end, ())] if parents else []
    return list(dict.fromkeys(held))


def lookup_names(module: str, settings: LoraSettings) -> list[str]:
    """Return the names under which patterns are looked up: the module's, and those of the parameter it stands for.

    PEFT looks stacked experts up by parameter. Which one a wrapper holds is not written anywhere; as in vLLM, the
    inner wrapper of two is gate_up_proj and the outer one down_proj.
    """
    bare = without_base_layer(module)
    names = [module, bare]
    parameters = _held_parameters(bare, settings)
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
        missing = [name for name in names if ends.isdisjoint(name_ends(name))]
    for name in missing:
        findings.add("A_UNDECLARED_MODULE", name, "has factors but target_modules does not cover it")


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
    declared = [settings.token_indices[end] for end in ("", *name_ends(owner)) if end in settings.token_indices]
    rows = entry.shape[0] if entry.shape else 0
    if len(entry.shape) != 2:
        findings.add("E_SHAPE", entry.name, f"has shape {list(entry.shape)}, not one row for each token")
    elif rows not in declared:
        wanted = declared[0] if declared else 0
        what = f"holds {rows} rows but trainable_token_indices declares {wanted}; save the adapter again"
        findings.add("E_SHAPE", entry.name, what)
