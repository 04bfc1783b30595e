"""Compare what a config declares with what the file holds: modules, layers, token rows."""

from collections.abc import Iterable

from lora_spec.adapter.classify import Classified
from lora_spec.adapter.config import LoraSettings
from lora_spec.adapter.findings import Findings
from lora_spec.adapter.header import TensorEntry
from lora_spec.adapter.names import layer_of, module_type, name_ends, num_base_layers, parse_name, without_base_layer
from lora_spec.adapter.patterns import matches_whole_name

# The order in which the stacks of experts of the transformers library hold their parameters, where any two are known.
_KNOWN_ORDER = ("gate_up_proj", "down_proj")


def is_expert_stack(module: str, settings: LoraSettings) -> bool:
    """Tell whether the factors of a module stack experts."""
    return bool(_parameters(without_base_layer(module), settings))


def lookup_names(module: str, settings: LoraSettings) -> list[str]:
    """Return the names that patterns are held against; several only where it is not certain which one applies.

    That is the module's name. Of a stack of experts it is the name of the parameter, never that of its module, as in
    PEFT's ``_inject_parameters`` and vLLM's ``get_rank_and_scaling``. Which parameter a wrapper holds is not written
    anywhere: each lies around the one before, in the order in which the module holds them, so that ``base_layer`` of
    two is gate_up_proj and the other down_proj. Of other parameters the order is not known: all that the depth leaves
    open are returned, the likeliest (by the order of the config) first.
    """
    bare = without_base_layer(module)
    parameters = _parameters(bare, settings)
    if not parameters:
        return [module]
    if set(parameters) == set(_KNOWN_ORDER):
        parameters = (_KNOWN_ORDER[0] if module != bare else _KNOWN_ORDER[1],)
    likeliest = max(0, len(parameters) - 1 - num_base_layers(module))
    parameters = [parameters[likeliest], *parameters[:likeliest], *parameters[likeliest + 1 :]]
    return [f"{bare}.{parameter}" for parameter in parameters]


def _parameters(bare: str, settings: LoraSettings) -> tuple[str, ...]:
    """Return the last words of the ``target_parameters`` that a module holds, in the order of the config."""
    by_parent = settings.parameters_by_parent
    if not by_parent:
        return ()
    # All that a module holds is known of the longest parent that ends its name: any shorter one ends that, too.
    longest = next((end for end in name_ends(bare) if end and end in by_parent), None)
    if longest is None:
        # Without a parent PEFT takes the parameter wherever it is; only of a stack can that be told from names.
        return by_parent.get("", ()) if module_type(bare) == "experts" else ()
    return by_parent[longest]


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
