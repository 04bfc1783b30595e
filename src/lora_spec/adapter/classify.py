"""Give every tensor of a file its place: a factor, or the code of what else it is. None is dropped in silence."""

import re
from collections.abc import Iterable

from lora_spec.adapter import foreign
from lora_spec.adapter.config import LoraSettings
from lora_spec.adapter.dtypes import FACTOR_TYPES, WHOLE_NUMBER_TYPES
from lora_spec.adapter.findings import Findings
from lora_spec.adapter.header import TensorEntry
from lora_spec.adapter.names import (
    ParsedName,
    is_mangled,
    module_type,
    parse_name,
    starts_at_layer_list,
    without_base_layer,
)
from lora_spec.printing import has_unsafe_characters

VOCABULARY_MODULES = frozenset(
    [
        "embed_tokens",
        "lm_head",
        "wte",
        "embed_in",
        "embed_out",
        "word_embeddings",
        "tok_embeddings",
        "token_embedding",
        "embeddings",
        "embedding",
        "shared",
        "output",
        "output_layer",
        "embed",
        "head",
        "word_embedding",
    ]
)
_VARIANT_TENSOR = r"(?:^|\.)(?:lora_diag|lora_velora\w*|lora_monteclora\w*|lora_arrow\w*)(?:\.|$)"
_MAGNITUDE = r"(?:^|\.)lora_magnitude_vector(?:\.[^.]+)?(?:\.weight)?$|\.magnitude$|\.m$"
_FACTOR_BIAS = r"\.lora_[AB](?:\.[^.]+)?\.bias$"
_TOKEN_ROWS = r"(?:^|\.)(?:token_adapter\.)?trainable_tokens_(?:delta|original)(?:\.[^.]+)?$"
_SAVED_MODULE = r"\.modules_to_save\."
_FREQUENCIES = r"(?:^|\.)(?:original_)?inv_freq$"


class FactorPair:
    """The factors of one module as the file holds them; either may be missing, or of another kind than its partner."""

    def __init__(self, module: str, *, is_embedding: bool = False) -> None:
        self.module = module
        self.a: TensorEntry | None = None
        self.b: TensorEntry | None = None
        self.is_embedding = is_embedding
        self.is_mixed = False


class Classified:
    """All tensors of an adapter in their places."""

    def __init__(self) -> None:
        self.pairs: dict[str, FactorPair] = {}
        self.magnitudes: dict[str, TensorEntry] = {}
        self.biases: dict[str, TensorEntry] = {}
        self.others: list[TensorEntry] = []


def classify_tensors(entries: Iterable[TensorEntry], settings: LoraSettings, findings: Findings) -> Classified:
    """Return the factors by module; record everything else under its code."""
    named = [(entry, parse_name(entry.name)) for entry in entries]
    _record_names(named, settings, findings)
    found = Classified()
    rest: list[tuple[TensorEntry, ParsedName]] = []
    for entry, parsed in named:
        if not parsed.is_factor and _record_foreign(entry, parsed.path, findings):
            found.others.append(entry)
        elif is_mangled(parsed):
            what = "this name lost a part (an old PEFT cut an adapter name out of it); rename or export again"
            findings.add("E_KEYS_MANGLED", entry.name, what)
        elif not parsed.is_factor:
            rest.append((entry, parsed))
        else:
            _take_factor(entry, parsed, found)
            if entry.dtype not in FACTOR_TYPES:
                found.others.append(entry)
                what = f"is a factor stored as {entry.dtype}, from which its values cannot be told"
                findings.add("A_UNKNOWN_TENSOR", entry.name, what)
    _record_rest(rest, found, settings, findings)
    return found


def _take_factor(entry: TensorEntry, parsed: ParsedName, found: Classified) -> None:
    pair = found.pairs.setdefault(parsed.module, FactorPair(parsed.module, is_embedding=parsed.is_embedding))
    pair.is_mixed |= pair.is_embedding != parsed.is_embedding
    pair.is_embedding |= parsed.is_embedding
    if parsed.leaf == "lora_A":
        pair.a = entry
    else:
        pair.b = entry


def _record_names(named: list[tuple[TensorEntry, ParsedName]], settings: LoraSettings, findings: Findings) -> None:
    seen: dict[tuple[str, str], str] = {}
    for entry, parsed in named:
        if has_unsafe_characters(entry.name):
            findings.add("E_UNSAFE_NAME", entry.name, "this tensor name holds control or text-direction characters")
        if 0 in entry.shape:
            what = "has no elements (saved under ZeRO-3 without gathering?); gather the weights and save again"
            findings.add("E_ZERO_SIZE", entry.name, what)
        first = seen.setdefault((parsed.module, parsed.leaf), entry.name)
        if first is not entry.name:
            what = "is a second tensor for one place (two adapters in one file?); keep one"
            findings.add("E_DUPLICATE_KEY", entry.name, what)
        if parsed.has_wrappers:
            what = "this name holds words of wrappers, so servers do not find the module; save the unwrapped model"
            findings.add("A_PREFIX_SUSPECT", entry.name, what)
        if parsed.is_factor:
            _record_factor_name(entry, parsed, settings, findings)


def _record_factor_name(entry: TensorEntry, parsed: ParsedName, settings: LoraSettings, findings: Findings) -> None:
    if parsed.adapter_name is not None:
        findings.add("N_KEY_NORMALISED", entry.name, "an adapter name in the key was taken out")
    if parsed.num_prefixes != 1:
        how = "absent" if parsed.num_prefixes == 0 else "repeated"
        findings.add("N_KEY_NORMALISED", entry.name, f"the prefix base_model.model. is {how}")
    if "base_model.model." in parsed.module:
        findings.add("A_PREFIX_SUSPECT", entry.name, "the prefix base_model.model. stands inside the name")
    if settings.task_type == "CAUSAL_LM" and starts_at_layer_list(parsed.module):
        what = "a level of the model is missing before the layers (trained on the bare model?); servers find no module"
        findings.add("A_PREFIX_SUSPECT", entry.name, what)


def _record_rest(
    rest: list[tuple[TensorEntry, ParsedName]], found: Classified, settings: LoraSettings, findings: Findings
) -> None:
    vocabulary_targeted = _is_vocabulary_targeted(found, settings)
    for entry, parsed in rest:
        name = parsed.path
        found.others.append(entry)
        is_saved = _is_saved_module(name, settings)
        code, what = _explain(entry, name, parsed, found, is_saved, vocabulary_targeted)
        findings.add(code, entry.name, what)
        is_unlisted_module = code == "A_MODULES_TO_SAVE" and not is_saved
        if is_unlisted_module:
            findings.add("A_UNKNOWN_TENSOR", entry.name, "is a whole weight that modules_to_save does not name")


def _record_foreign(entry: TensorEntry, name: str, findings: Findings) -> bool:
    if not re.search(foreign.ANY_OTHER, name):  # one search for most tensors, instead of twenty
        return False
    for pattern, code, what in foreign.OTHER_FORMATS:
        if re.search(pattern, name):
            findings.add(code, entry.name, f"is named as in {what}")
            return True
    for pattern, method in foreign.OTHER_METHODS:
        if re.search(pattern, name):
            findings.add("E_NOT_LORA", entry.name, f"is a tensor of {method}, not of LoRA; only LoRA is read")
            return True
    return False


def _explain(
    entry: TensorEntry,
    name: str,
    parsed: ParsedName,
    found: Classified,
    is_saved: bool,
    vocabulary_targeted: bool,
) -> tuple[str, str]:
    """Return the code of a tensor that is no factor, and what it is."""
    if re.search(_VARIANT_TENSOR, name):
        return "A_VARIANT", "is a tensor of another LoRA variant"
    if re.search(_MAGNITUDE, name):
        found.magnitudes[re.sub(_MAGNITUDE, "", name)] = entry
        return "A_DORA", "is a magnitude vector: it rescales the result"
    if re.search(_FACTOR_BIAS, name):
        found.biases[re.sub(_FACTOR_BIAS, "", name) + re.search(r"lora_[AB]", name).group()] = entry
        return "A_BIAS", "is a trained bias"
    if re.search(_TOKEN_ROWS, name):
        return "A_TOKEN_ROWS", "replaces rows of the embedding matrix"
    if re.search(_SAVED_MODULE, name) or is_saved:
        return "A_MODULES_TO_SAVE", "replaces a whole module"
    if ".original_module." in name or (".base_layer." in name and name.endswith(".weight")):
        return "A_BASE_COPY", "is a weight of the base, saved beside the factors"
    is_whole_number = entry.dtype in WHOLE_NUMBER_TYPES
    if re.search(_FREQUENCIES, name) or (is_whole_number and parsed.leaf != "weight"):
        return "N_IGNORED_TENSOR", "is a buffer without effect"
    if parsed.leaf == "bias":
        return "A_BIAS", "is a trained bias"
    if parsed.leaf == "weight":
        return _explain_weight(parsed.module, found, vocabulary_targeted)
    return (
        ("N_IGNORED_TENSOR", "is a buffer without effect")
        if is_whole_number
        else (
            "A_UNKNOWN_TENSOR",
            "no rule explains this tensor",
        )
    )


def _explain_weight(module: str, found: Classified, vocabulary_targeted: bool) -> tuple[str, str]:
    is_embedding_target = module in found.pairs and found.pairs[module].is_embedding
    if module_type(module) in VOCABULARY_MODULES or is_embedding_target:
        if vocabulary_targeted:
            return "A_BASE_COPY", "is a whole vocabulary matrix, saved because an embedding is a LoRA target"
        return "A_VOCAB_CHANGED", "is a whole vocabulary matrix that modules_to_save does not name: was it resized?"
    if module in found.pairs or f"{module}.base_layer" in found.pairs:
        return "A_BASE_COPY", "is a weight of the base, saved beside its factors"
    return "A_MODULES_TO_SAVE", "replaces a whole module"


def _is_vocabulary_targeted(found: Classified, settings: LoraSettings) -> bool:
    declared = settings.target_modules if isinstance(settings.target_modules, tuple) else ()
    return any(
        pair.is_embedding or module_type(without_base_layer(module)) in VOCABULARY_MODULES
        for module, pair in found.pairs.items()
    ) or any(module_type(entry) in VOCABULARY_MODULES for entry in declared)


def _is_saved_module(name: str, settings: LoraSettings) -> bool:
    """Tell whether words of a name, one after the other, are an entry of ``modules_to_save``."""
    words = name.split(".")
    if settings.last_saved_words.isdisjoint(words):
        return False
    return any(
        tuple(words[start : start + length]) in entries
        for length, entries in settings.saved_by_length.items()
        for start in range(len(words) - length + 1)
    )
