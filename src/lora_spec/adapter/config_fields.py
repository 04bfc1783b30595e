"""The fields of a LoRA config one by one: what each may hold, and which code says that it holds something else."""

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from lora_spec.adapter.findings import Findings
from lora_spec.adapter.limits import MAX_LISTED_NAMES, MAX_PARAMETER_KINDS, MAX_PATTERN_TEXT
from lora_spec.adapter.patterns import PatternTable, check_pattern, is_plain
from lora_spec.printing import printable

MAX_RANK = 65536

HARMLESS = frozenset(
    [
        "auto_mapping",
        "base_model_name_or_path",
        "bias",
        "corda_config",
        "eva_config",
        "exclude_modules",
        "fan_in_fan_out",
        "inference_mode",
        "layers_pattern",
        "layers_to_transform",
        "loftq_config",
        "lora_dropout",
        "lora_ga_config",
        "megatron_config",
        "megatron_core",
        "merge_weights",
        "peft_version",
        "qalora_group_size",
        "revision",
        "runtime_config",
        "task_type",
    ]
)
INTERPRETED = frozenset(
    [
        "peft_type",
        "r",
        "lora_alpha",
        "use_rslora",
        "rank_pattern",
        "alpha_pattern",
        "target_modules",
        "target_parameters",
        "modules_to_save",
        "trainable_token_indices",
        "init_lora_weights",
        "enable_lora",
        "layer_replication",
        "use_dora",
        "lora_bias",
    ]
)
VARIANTS = frozenset(
    [
        "alora_invocation_tokens",
        "arrow_config",
        "ensure_weight_tying",
        "kasa_config",
        "monteclora_config",
        "use_bdlora",
        "use_qalora",
        "velora_config",
    ]
)
_TRUTH_VARIANTS = ("use_qalora", "ensure_weight_tying")
_BASE_KEPT = frozenset({"gaussian", "eva", "orthogonal", "mica", "true", "false"})
_BASE_CHANGED = r"pissa(?:_niter_\d+)?|olora|corda|loftq|lora_ga"
_VALUE = "E_CONFIG_VALUE"


def show(value: Any) -> str:
    """Return a config value as short, safe text."""
    return printable(repr(value), 60)


def check_method(config: Mapping[str, Any], findings: Findings) -> None:
    """Record a config that is absent of a method or names another one than LoRA."""
    method = config.get("peft_type")
    if method is None:
        findings.add("E_NOT_LORA", "peft_type", "is absent, so this is no PEFT adapter config; export it with PEFT")
    elif not isinstance(method, str):
        findings.add(_VALUE, "peft_type", f"is {show(method)}, not a text")
        findings.add("E_NOT_LORA", "peft_type", f"is {show(method)}; only LORA is read")
    elif method.upper() != "LORA":
        findings.add("E_NOT_LORA", "peft_type", f"is {printable(method, 60)}; only LORA is read, convert it with PEFT")


def check_switches(config: Mapping[str, Any], findings: Findings) -> None:
    """Record the switches that make the update something else than scale*B@A."""
    if truth(config, "use_dora", findings):
        findings.add("A_DORA", "use_dora", "is on: a magnitude vector rescales the result")
    if truth(config, "lora_bias", findings):
        findings.add("A_BIAS", "lora_bias", "is on: bias vectors were trained too")
    for name in _TRUTH_VARIANTS:
        truth(config, name, findings)
    for name in sorted(VARIANTS):
        if config.get(name):
            findings.add("A_VARIANT", name, f"is {show(config[name])}: another variant of LoRA is on")
    _check_replication(config.get("layer_replication"), findings)
    enabled = config.get("enable_lora")
    if any(enabled) if isinstance(enabled, list) else enabled:
        findings.add("E_LEGACY_MERGED_LINEAR", "enable_lora", "is on: a fused layer of PEFT 0.1 or 0.2; train it anew")


def _check_replication(replication: Any, findings: Findings) -> None:
    if not replication and replication in (None, False, []):
        return
    is_ranges = isinstance(replication, list) and all(
        isinstance(pair, list) and len(pair) == 2 and all(type(end) is int and end >= 0 for end in pair)
        for pair in replication
    )
    if is_ranges:
        findings.add("A_LAYER_REPLICATION", "layer_replication", "is set: the base does not have these layers")
    else:
        findings.add(_VALUE, "layer_replication", f"is {show(replication)}, not a list of layer ranges")


def check_initialisation(config: Mapping[str, Any], findings: Findings) -> None:
    """Record an initialisation that changes the base, or one that nobody knows."""
    value = config.get("init_lora_weights", True)
    if value is None or isinstance(value, bool):
        return
    if not isinstance(value, str):
        findings.add(_VALUE, "init_lora_weights", f"is {show(value)}, neither a text nor a truth value")
    elif re.fullmatch(_BASE_CHANGED, value.lower()):
        what = f"is {printable(value, 60)}: the factors are relative to a changed base; convert to plain LoRA with PEFT"
        findings.add("A_BASE_MODIFIED_INIT", "init_lora_weights", what)
    elif value.lower() not in _BASE_KEPT:
        findings.add("A_UNKNOWN_FIELD", "init_lora_weights", f"is {printable(value, 60)}, an unknown initialisation")


def check_unknown(config: Mapping[str, Any], findings: Findings) -> None:
    """Record fields that no rule knows: set ones may change the mathematics, empty ones do not."""
    for name in config:
        if name in HARMLESS or name in INTERPRETED or name in VARIANTS:
            continue
        if config[name]:
            findings.add("A_UNKNOWN_FIELD", name, "is set, but no rule knows this config field")
        else:
            findings.add("N_UNKNOWN_NULL_FIELD", name, "unknown but empty config field was passed over")


def truth(config: Mapping[str, Any], name: str, findings: Findings) -> bool:
    """Return a truth value; absent or null means false."""
    value = config.get(name)
    if value is None or isinstance(value, bool):
        return bool(value)
    findings.add(_VALUE, name, f"is {show(value)}, not true or false")
    return False


def rank(value: Any, name: str, findings: Findings) -> int | None:
    """Return a rank, a whole number from 1 to 65536."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number and 1 <= value <= MAX_RANK and value == int(value):
        return int(value)
    findings.add(_VALUE, name, f"is {show(value)}, not a whole number from 1 to {MAX_RANK}")
    return None


def number(value: Any, name: str, findings: Findings) -> float | None:
    """Return a finite number."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            found = float(value)
        except OverflowError:
            found = math.inf
        if math.isfinite(found):
            return found
    findings.add(_VALUE, name, f"is {show(value)}, not a finite number")
    return None


def pattern_table(
    config: Mapping[str, Any], name: str, read: Callable[[Any, str, Findings], float | None], findings: Findings
) -> PatternTable:
    """Return ``rank_pattern`` or ``alpha_pattern``, leaving out what is wrong in it."""
    table = config.get(name)
    if table is None:
        return PatternTable({})
    if not isinstance(table, dict):
        findings.add(_VALUE, name, f"is {show(table)}, not an object from patterns to numbers")
        return PatternTable({})
    kept = {}
    num_characters, left_out = 0, None
    for key, value in table.items():
        num_characters += 0 if is_plain(key) else len(key)
        if num_characters > MAX_PATTERN_TEXT:
            left_out = key
            break
        found = read(value, f"{name}[{printable(key, 60)}]", findings)
        if not is_bad_pattern(key, name, findings) and found is not None:
            kept[key] = found
    made = PatternTable(kept)
    if left_out is not None:
        made.not_evaluable[left_out] = f"{MAX_PATTERN_TEXT} characters of patterns stand before it"
    _record_not_evaluable(made, name, findings)
    return made


def _record_not_evaluable(table: PatternTable, name: str, findings: Findings) -> None:
    for key, reason in table.not_evaluable.items():
        findings.add("A_UNKNOWN_FIELD", f"{name}[{printable(key, 60)}]", f"this pattern cannot be evaluated: {reason}")


def is_bad_pattern(pattern: Any, name: str, findings: Findings) -> bool:
    """Record a pattern that is unsafe or no regular expression; tell whether it is."""
    code = check_pattern(pattern)
    if code == "E_PATTERN_UNSAFE":
        what = "this pattern can keep an engine busy without end; write it without nested repetition or comments"
        findings.add(code, f"{name}[{printable(pattern, 60)}]", what)
    elif code:
        findings.add(code, f"{name}[{printable(pattern, 60)}]", "is no regular expression")
    return code is not None


def target_modules(config: Mapping[str, Any], findings: Findings) -> str | tuple[str, ...] | None:
    """Return the declared modules: a pattern, a tuple of name ends, or None for all."""
    value = config.get("target_modules")
    if value is None or (isinstance(value, str) and value.lower() == "all-linear"):
        return None
    if isinstance(value, str):
        return None if is_bad_pattern(value, "target_modules", findings) else value
    if _is_texts(value):
        return tuple(value)
    findings.add(_VALUE, "target_modules", f"is {show(value)}, neither a text nor a list of texts")
    return None


def names(config: Mapping[str, Any], name: str, findings: Findings) -> tuple[str, ...]:
    """Return a list of texts as a tuple; absent or null is empty."""
    value = config.get(name)
    if value is None:
        return ()
    if _is_texts(value):
        if len(value) > MAX_LISTED_NAMES:
            findings.add(_VALUE, name, f"lists {len(value)} names; at most {MAX_LISTED_NAMES} are read")
        return tuple(value[:MAX_LISTED_NAMES])
    findings.add(_VALUE, name, f"is {show(value)}, not a list of texts")
    return ()


def target_parameters(config: Mapping[str, Any], findings: Findings) -> tuple[str, ...]:
    """Return the parameters that are adapted; their last words are of few kinds."""
    name = "target_parameters"
    found = names(config, name, findings)
    kinds = dict.fromkeys(entry.rpartition(".")[2] for entry in found)
    if len(kinds) <= MAX_PARAMETER_KINDS:
        return found
    findings.add(_VALUE, name, f"lists parameters of {len(kinds)} names; at most {MAX_PARAMETER_KINDS} are read")
    kept = set(list(kinds)[:MAX_PARAMETER_KINDS])
    return tuple(entry for entry in found if entry.rpartition(".")[2] in kept)


def modules_to_save(config: Mapping[str, Any], findings: Findings) -> tuple[str, ...]:
    """Return the modules that are saved whole."""
    found = names(config, "modules_to_save", findings)
    if found:
        findings.add("A_MODULES_TO_SAVE", "modules_to_save", f"is {show(list(found))}: whole modules are replaced")
    return found


def token_indices(config: Mapping[str, Any], findings: Findings) -> dict[str, int]:
    """Return how many rows are replaced, by module; the key "" stands for the embedding, whatever its name."""
    name = "trainable_token_indices"
    value = config.get(name)
    if value is None or value in ([], {}):
        return {}
    table = {"": value} if isinstance(value, list) else value
    if not isinstance(table, dict) or not all(_is_indices(rows) for rows in table.values()):
        findings.add(_VALUE, name, f"is {show(value)}, neither a list of token numbers nor an object of such lists")
        return {}
    counts = {module: len(rows) for module, rows in table.items() if rows}
    if counts:
        findings.add("A_TOKEN_ROWS", name, "is set: rows of the embedding matrix are replaced")
    return counts


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _is_indices(value: Any) -> bool:
    return isinstance(value, list) and all(type(item) is int and item >= 0 for item in value)
