"""Tensor names: take the wrappers off, find the module and the part of it that the tensor is."""

import re
from typing import NamedTuple

BASE_LAYER = ".base_layer"
WRAPPER_WORDS = frozenset({"_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"})
_PREFIX = ("base_model", "model")
_LAYER_LISTS = ("layers", "layer", "h", "blocks", "block")
_STARTS_AT_LAYER_LIST = re.compile(rf"(?:{'|'.join(_LAYER_LISTS)})\.\d+(?:\.|$)")
_LAYER = re.compile(rf"(?:^|\.)(?P<stack>(?:{'|'.join(_LAYER_LISTS)}))\.(?P<index>\d{{1,9}})(?=\.|$)")
_EXPERT_SUFFIX = re.compile(r"\[\d+\]$")
# An adapter name such as "self" was once cut out of every key: "layers.0.self_attn" became "layers.0_attn".
_CUT_INDEX = rf"(?:^|\.)(?:{'|'.join(_LAYER_LISTS)})\.\d+[A-Za-z_]"
_MANGLED_LEAF = (
    r"(?:^|[._])(?:lora_)?(?:embedding_)?[AB](?:\.weight)?$"
    r"|\.lora_[AB]\.(?!bias$)[^.]+$"
    r"|(?<!\.lora)_magnitude_vector(?:\.weight)?$"
)


class ParsedName(NamedTuple):
    """A tensor name taken apart.

    ``module`` is the module path without prefixes and wrappers, ``leaf`` what follows it: ``lora_A`` or ``lora_B``
    for factors, the last word for anything else.
    """

    module: str
    leaf: str
    is_factor: bool
    is_embedding: bool
    num_prefixes: int
    adapter_name: str | None
    has_wrappers: bool

    @property
    def path(self) -> str:
        """Return the whole name without prefixes and wrappers, for tensors that are no factors."""
        return f"{self.module}.{self.leaf}" if self.module else self.leaf


def parse_name(name: str) -> ParsedName:
    """Take a tensor name apart, by the rules of the inspection contract."""
    words = name.split(".")
    kept = [word for word in words if word not in WRAPPER_WORDS]
    has_wrappers = len(kept) < len(words)
    kept, num_prefixes, had_leading_module = _strip_leading(kept)
    factor = _split_factor(kept)
    module, leaf, is_embedding, adapter_name = factor or (".".join(kept[:-1]), kept[-1], False, None)
    return ParsedName(
        module=module,
        leaf=leaf,
        is_factor=factor is not None,
        is_embedding=is_embedding,
        num_prefixes=num_prefixes,
        adapter_name=adapter_name,
        has_wrappers=has_wrappers or had_leading_module,
    )


def _strip_leading(words: list[str]) -> tuple[list[str], int, bool]:
    num_prefixes, had_leading_module = 0, False
    while True:
        if tuple(words[:2]) == _PREFIX:
            words, num_prefixes = words[2:], num_prefixes + 1
        elif words[:1] == ["module"] and len(words) > 1:
            words, had_leading_module = words[1:], True
        else:
            return words or [""], num_prefixes, had_leading_module


def _split_factor(words: list[str]) -> tuple[str, str, bool, str | None] | None:
    without_weight = words[:-1] if words[-1:] == ["weight"] else words
    has_weight = len(without_weight) < len(words)
    for back in (1, 2):
        if len(without_weight) < back:
            break
        mark = without_weight[-back]
        adapter_name = without_weight[-1] if back == 2 else None
        if mark in ("lora_A", "lora_B") and has_weight:
            return ".".join(without_weight[:-back]), mark, False, adapter_name
        if mark in ("lora_embedding_A", "lora_embedding_B"):
            return ".".join(without_weight[:-back]), mark.replace("embedding_", ""), True, adapter_name
    return None


def is_mangled(parsed: ParsedName) -> bool:
    """Tell whether a name lost a part on its way: ``q_proj_A.weight``, ``lora_A`` without weight, no module."""
    module = parsed.module
    if parsed.is_factor:
        return not module or module.startswith("base_model.") or bool(re.search(_CUT_INDEX, module))
    return bool(re.search(_MANGLED_LEAF, parsed.path))


def module_type(name: str) -> str:
    """Return the last word of a module name, expert suffix and ``base_layer`` left aside."""
    words = [word for word in _EXPERT_SUFFIX.sub("", name).split(".") if word != "base_layer"]
    return words[-1] if words else name


def without_base_layer(name: str) -> str:
    """Return a module name without the ``base_layer`` of inner wrappers."""
    return name[: len(name) - len(BASE_LAYER) * num_base_layers(name)]


def num_base_layers(name: str) -> int:
    """Return how many wrappers lie around the one of this name: the outermost bears no ``base_layer``."""
    count = 0
    while name.endswith(BASE_LAYER, 0, len(name) - count * len(BASE_LAYER)):
        count += 1
    return count


def name_ends(name: str) -> list[str]:
    """Return a name and every part of it that begins after a dot, the longest first.

    A name equals or ends in ``.entry`` if ``entry`` is one of them; so one look-up in a set of entries stands for a
    comparison with each. The header's limit on names keeps them few.
    """
    ends = [name]
    while "." in ends[-1]:
        ends.append(ends[-1].partition(".")[2])
    return ends


def layer_of(name: str) -> tuple[str, int] | None:
    """Return the layer list a module stands in (its path) and its place there, or None outside of layers."""
    found = _LAYER.search(name)
    return (name[: found.end("stack")], int(found.group("index"))) if found else None


def starts_at_layer_list(name: str) -> bool:
    """Tell whether a name begins with ``layers.0`` or the like, so that a level of the model is missing."""
    return bool(_STARTS_AT_LAYER_LIST.match(name))
