"""Pair the factors of each module; find rank, scale and layout, or the code of why there are none."""

import math
from typing import Literal, NamedTuple

from lora_spec.adapter.classify import Classified, FactorPair
from lora_spec.adapter.config import LoraSettings
from lora_spec.adapter.declared import is_expert_stack, lookup_names
from lora_spec.adapter.dtypes import FACTOR_TYPES
from lora_spec.adapter.findings import Findings
from lora_spec.adapter.header import TensorEntry
from lora_spec.adapter.limits import MAX_EXPERTS, MAX_MODULES
from lora_spec.adapter.names import layer_of, module_type
from lora_spec.printing import printable

Layout = Literal["plain", "expert_rows", "expert_batch"]


class Module(NamedTuple):
    """One module's update scale * B @ A: where its factors lie, before any value is read.

    Parameters
    ----------
    name
        Module path, with ``[e]`` for expert e of a stack.
    rank, scale
        r and alpha / r (or alpha / sqrt(r)).
    in_features, out_features
        Columns of A and rows of B, kernels of convolutions flattened into the columns.
    expert, num_experts
        Which slice of the stored tensors this is; 0 of 1 for an ordinary module.
    """

    name: str
    rank: int
    scale: float
    in_features: int
    out_features: int
    a: TensorEntry
    b: TensorEntry
    layout: Layout = "plain"
    expert: int = 0
    num_experts: int = 1
    is_embedding: bool = False

    @property
    def type(self) -> str:
        """Return the last word of the name, such as ``q_proj``."""
        return module_type(self.name)

    @property
    def layer(self) -> int | None:
        """Return the place in the layer list, None outside of layers."""
        place = layer_of(self.name)
        return place[1] if place else None

    @property
    def stack(self) -> str | None:
        """Return the path of the layer list, such as ``model.layers``, None outside of layers."""
        place = layer_of(self.name)
        return place[0] if place else None


class _Shape(NamedTuple):
    layout: Layout
    rank: int
    in_features: int
    out_features: int
    num_experts: int = 1


def build_modules(found: Classified, settings: LoraSettings, findings: Findings) -> list[Module]:
    """Return one Module per update, experts apart, in the order of the file; record what does not fit."""
    modules: list[Module] = []
    for pair in found.pairs.values():
        built = _build(pair, settings, findings)
        if len(modules) + len(built) > MAX_MODULES:
            findings.add("A_UNKNOWN_TENSOR", pair.module, f"is not measured: {MAX_MODULES} modules are the most")
        else:
            modules += built
    _check_companions(found, findings)
    _record_patterns(settings, findings)
    return modules


def _build(pair: FactorPair, settings: LoraSettings, findings: Findings) -> list[Module]:
    # One lookup per module, also where the pair is broken: a pattern that applies must count as used.
    rank, alpha = _look_up(pair, settings, findings)
    if pair.is_mixed:
        what = "has one factor of an embedding and one of a linear layer, so each lacks its partner; save it again"
        findings.add("E_ORPHAN_FACTOR", pair.module, what)
        return []
    if pair.a is None or pair.b is None:
        there, missing = ("A", "B") if pair.b is None else ("B", "A")
        findings.add(
            "E_ORPHAN_FACTOR", pair.module, f"has a lora_{there} but no lora_{missing}; save the adapter again"
        )
        return []
    if 0 in pair.a.shape or 0 in pair.b.shape:
        return []  # recorded as E_ZERO_SIZE where the names are checked
    shape = _shape(pair, None if rank is None else int(rank), settings, findings)
    if shape is None or not {pair.a.dtype, pair.b.dtype} <= FACTOR_TYPES:
        return []
    if not _is_rank_right(pair, shape, rank, settings, findings) or rank is None or alpha is None:
        return []
    scale = alpha / (math.sqrt(shape.rank) if settings.use_rslora else shape.rank)
    if alpha == 0:
        findings.add(
            "N_RUNTIME_SCALE_DIFFERS", pair.module, "has alpha 0: no update, but llama.cpp takes it as scale 1"
        )
    if shape.num_experts > MAX_EXPERTS:
        what = f"stacks {shape.num_experts} experts; more than {MAX_EXPERTS} are not measured"
        findings.add("A_UNKNOWN_TENSOR", pair.module, what)
        return []
    return [_module(pair, shape, expert, scale) for expert in range(shape.num_experts)]


def _look_up(pair: FactorPair, settings: LoraSettings, findings: Findings) -> tuple[float | None, float | None]:
    """Return rank and alpha of a module after the patterns; record where these leave a choice."""
    found = []
    for name in lookup_names(pair.module, settings):
        rank, alpha = settings.rank_pattern.lookup([name]), settings.alpha_pattern.lookup([name])
        found.append((rank or settings.rank, settings.alpha if alpha is None else alpha))
    if len(set(found)) > 1:
        what = (
            "rank_pattern or alpha_pattern tells its target_parameters apart, but not which of them this wrapper holds"
        )
        findings.add("A_UNKNOWN_FIELD", pair.module, what)
        rows = pair.a.shape[0] if pair.a is not None and pair.a.shape else 0
        found = [(rank, alpha) for rank, alpha in found if rank and rows % rank == 0] or found
    return found[0]


def _module(pair: FactorPair, shape: _Shape, expert: int, scale: float) -> Module:
    suffix = f"[{expert}]" if shape.num_experts > 1 else ""
    return Module(
        name=pair.module + suffix,
        rank=shape.rank,
        scale=float(scale),
        in_features=shape.in_features,
        out_features=shape.out_features,
        a=pair.a,
        b=pair.b,
        layout=shape.layout,
        expert=expert,
        num_experts=shape.num_experts,
        is_embedding=pair.is_embedding,
    )


def _shape(pair: FactorPair, rank: int | None, settings: LoraSettings, findings: Findings) -> _Shape | None:
    """Return how the two tensors are to be read, or record why they are no factors."""
    a, b = pair.a.shape, pair.b.shape
    if len(a) == 2 and len(b) == 3 and b[2] == 1:
        what = f"has shapes {list(a)} and {list(b)}: grouped factors of a fused layer, as PEFT 0.1 and 0.2 wrote them"
        findings.add("E_LEGACY_MERGED_LINEAR", pair.module, what)
        return None
    if is_expert_stack(pair.module, settings):
        return _expert_shape(pair, rank, findings)
    is_convolution = len(a) == len(b) in (3, 4) and set(b[2:]) == {1} and not pair.is_embedding
    if not is_convolution and (len(a), len(b)) != (2, 2):
        findings.add("E_SHAPE", pair.module, f"has factors of shapes {list(a)} and {list(b)}, not matrices")
        return None
    if a[0] != b[1] and not settings.is_block_diagonal:
        findings.add(
            "E_RANK_PAIR", pair.module, f"has A of shape {list(a)} and B of shape {list(b)}: inner sizes differ"
        )
        return None
    if a[0] != b[1]:
        return None  # block-diagonal LoRA, recorded as A_VARIANT: the blocks are not expanded
    return _Shape("plain", a[0], math.prod(a[1:]), b[0])


def _expert_shape(pair: FactorPair, rank: int | None, findings: Findings) -> _Shape | None:
    a, b = pair.a.shape, pair.b.shape
    if len(a) == len(b) == 3:
        if a[0] != b[0] or a[1] != b[2]:
            findings.add("E_RANK_PAIR", pair.module, f"has experts of shapes {list(a)} and {list(b)} that do not fit")
            return None
        return _Shape("expert_batch", a[1], a[2], b[1], a[0])
    if (len(a), len(b)) != (2, 2):
        findings.add("E_SHAPE", pair.module, f"has factors of shapes {list(a)} and {list(b)}, not stacked experts")
        return None
    if a[0] != b[1]:
        findings.add(
            "E_RANK_PAIR", pair.module, f"has A of shape {list(a)} and B of shape {list(b)}: inner sizes differ"
        )
        return None
    if rank is None:
        return None
    if a[0] % rank:
        findings.add("E_SHAPE", pair.module, f"has {a[0]} rows in A, not a whole number of experts of rank {rank}")
        return None
    return _Shape("expert_rows", rank, a[1], b[0], a[0] // rank)


def _is_rank_right(
    pair: FactorPair, shape: _Shape, rank: float | None, settings: LoraSettings, findings: Findings
) -> bool:
    if rank is None or shape.rank == rank or settings.rank_pattern.not_evaluable:
        return True
    what = f"has rank {shape.rank} in its tensors but {int(rank)} in the config (r, rank_pattern): no scale is certain"
    findings.add("E_RANK_CONFIG", pair.module, what)
    return False


def _check_companions(found: Classified, findings: Findings) -> None:
    """Record magnitude vectors and biases whose length is not that of the output they act on."""
    for module, entry in found.magnitudes.items():
        pair = found.pairs.get(module)
        if pair and pair.b and not pair.is_embedding and len(pair.b.shape) == 2:
            _check_length(entry, pair.b.shape[0], findings)
    for key, entry in found.biases.items():
        pair = found.pairs.get(key[: -len("lora_A")])
        owner = pair and (pair.a if key.endswith("lora_A") else pair.b)
        if owner and len(owner.shape) == 2:
            _check_length(entry, owner.shape[0], findings)


def _check_length(entry: TensorEntry, wanted: int, findings: Findings) -> None:
    if entry.num_elements not in (wanted, 0):
        findings.add("E_SHAPE", entry.name, f"has {entry.num_elements} elements where the factors need {wanted}")


def _record_patterns(settings: LoraSettings, findings: Findings) -> None:
    """Note patterns that apply (servers differ on them), apply to nothing, or proved too costly to evaluate."""
    if settings.use_rslora:
        findings.add("N_RUNTIME_SCALE_DIFFERS", "use_rslora", "some servers divide alpha by r instead of sqrt(r)")
    for name, table in (("rank_pattern", settings.rank_pattern), ("alpha_pattern", settings.alpha_pattern)):
        if table.used:
            findings.add("N_RUNTIME_SCALE_DIFFERS", name, "applies; some servers do not read it")
        for key in table.unused:
            findings.add("N_PATTERN_UNMATCHED", f"{name}[{printable(key, 60)}]", "this pattern applies to no module")
        told = set(findings.places("A_UNKNOWN_FIELD"))
        for key, reason in table.not_evaluable.items():
            where = f"{name}[{printable(key, 60)}]"
            if where not in told:
                findings.add("A_UNKNOWN_FIELD", where, f"this pattern cannot be evaluated: {reason}")
