"""The weights of a base model in a local folder, one matrix at a time; nothing is downloaded or imported."""

import itertools
import json
import math
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from lora_spec.adapter import foreign
from lora_spec.adapter.decode import to_float64, view_stored
from lora_spec.adapter.dtypes import FACTOR_TYPES
from lora_spec.adapter.files import RegularFile, read_whole
from lora_spec.adapter.header import TensorEntry, looks_like_safetensors, read_header
from lora_spec.adapter.inspected import InspectedModule
from lora_spec.errors import AdapterError
from lora_spec.printing import printable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_MAX_CONFIG_BYTES = 2**20
_MAX_FILES = 512
_ROOTS = ("model.", "transformer.", "language_model.")
_CONV1D_NAMES = frozenset({"c_attn", "c_proj", "c_fc", "q_attn"})
_CONV1D_MODELS = frozenset({"gpt2", "openai-gpt", "imagegpt", "decision_transformer", "clvp_encoder", "clvp_decoder"})


class BaseModel:
    """A base model's config and weight files, opened for reading.

    Raises
    ------
    AdapterError
        The folder holds neither a readable config.json nor safetensors weights.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        if not folder.is_dir():
            what = "is no folder" if folder.exists() else "no such folder"
            raise AdapterError(f"base model {printable(folder)}: {what}; give its folder", codes=["E_UNSAFE_FILE"])
        self._files: list[RegularFile] = []
        self._entries: dict[str, TensorEntry] = {}
        try:
            self.config = _read_config(folder)
            names = sorted(path.name for path in folder.glob("*.safetensors") if not path.name.startswith("adapter"))
            for name in names[:_MAX_FILES]:
                self._open(folder / name)
        except (AdapterError, OSError) as err:
            self.close()
            codes = err.codes if isinstance(err, AdapterError) else ()
            raise AdapterError(
                f"base model {printable(folder)}: {printable(err, 300)}", codes=codes or ["E_UNSAFE_FILE"]
            ) from err
        if not self.config and not self._entries:
            what = f"holds neither config.json nor *.safetensors{self._what_else()}; give the folder of the model"
            raise AdapterError(f"base model {printable(folder)}: {what}", codes=["E_UNSAFE_FILE"])

    def _open(self, path: Path) -> None:
        file = RegularFile(path)
        self._files.append(file)
        _refuse_foreign(file)
        self._entries |= {entry.name: entry for entry in read_header(file, len(self._files) - 1)}

    def _what_else(self) -> str:
        """Return what the folder holds in their place, by the names of its files."""
        for path in itertools.islice(sorted(self.folder.iterdir()), _MAX_FILES):
            recognised = foreign.recognise_name(path.name)
            if recognised:
                return f" (its {printable(path.name, 60)} {recognised[1].partition(';')[0]})"
        return ""

    @property
    def has_weights(self) -> bool:
        """Tell whether any weights are here."""
        return bool(self._entries)

    @property
    def num_layers(self) -> int | None:
        """Return the number of layers, as the config says."""
        text = self.config.get("text_config")
        found = self.config if not isinstance(text, dict) else {**self.config, **text}
        value = found.get("num_hidden_layers", found.get("n_layer"))
        return value if type(value) is int and value > 0 else None

    def find(self, module: InspectedModule) -> TensorEntry | None:
        """Return the weight that a module changes, None where the base has none of that name."""
        names = [module.name, *(f"{root}{module.name}" for root in _ROOTS)]
        names += [module.name.removeprefix(root) for root in _ROOTS]
        for name in dict.fromkeys(names):
            if f"{name}.weight" in self._entries:
                return self._entries[f"{name}.weight"]
        if module.type == "lm_head" and self.config.get("tie_word_embeddings", True):
            tied = [
                entry for name, entry in self._entries.items() if name.endswith(("embed_tokens.weight", "wte.weight"))
            ]
            return tied[0] if tied else None
        return None

    def orientation(self, module: InspectedModule, entry: TensorEntry, *, fan_in_fan_out: bool) -> bool | None:
        """Tell whether a weight is stored as the transpose of ``(out_features, in_features)``; None if it does not fit.

        Embeddings are. GPT-2's Conv1D is, too, and may share its names with plain layers of other models: where the
        kind of model or ``fan_in_fan_out`` of the adapter leaves both open, the sizes decide, and of a square matrix
        the name does. Every other weight must have its sizes in order. Kernels of convolutions are flattened.
        """
        if entry.dtype not in FACTOR_TYPES or len(entry.shape) < 2:
            return None
        stored, wanted = _as_matrix(entry), (module.out_features, module.in_features)
        if module.is_embedding:
            return True if stored == wanted[::-1] else None
        if stored == wanted[::-1] and (fan_in_fan_out or self._may_be_conv1d(module)):
            return True
        return False if stored == wanted else None

    def _may_be_conv1d(self, module: InspectedModule) -> bool:
        kind = self.config.get("model_type")
        return module.type in _CONV1D_NAMES and (kind is None or kind in _CONV1D_MODELS)

    def read(self, entry: TensorEntry, *, is_turned: bool) -> "NDArray[np.floating]":
        """Return a weight as a matrix ``(out_features, in_features)``, float64 if it is stored so, else float32.

        Raises
        ------
        AdapterError
            The weight holds NaN or infinity.
        """
        import numpy as np

        raw = self._files[entry.file].read_at(entry.start, entry.end - entry.start)
        stored = view_stored(raw, entry.dtype).reshape(_as_matrix(entry))
        rows = max(1, 2**20 // stored.shape[1])
        matrix = np.empty(stored.shape, dtype=np.float64 if entry.dtype == "F64" else np.float32)
        for start in range(0, stored.shape[0], rows):
            matrix[start : start + rows] = to_float64(stored[start : start + rows], entry.dtype)
            if not np.isfinite(matrix[start : start + rows]).all():
                name = f"{printable(self.folder)}: tensor {printable(entry.name)}"
                raise AdapterError(f"base model {name} holds NaN or infinity; download it again", codes=["E_NONFINITE"])
        return matrix.T if is_turned else matrix

    def close(self) -> None:
        """Close all files."""
        for file in self._files:
            file.close()

    def __enter__(self) -> "BaseModel":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _as_matrix(entry: TensorEntry) -> tuple[int, int]:
    return entry.shape[0], math.prod(entry.shape[1:])


def _refuse_foreign(file: RegularFile) -> None:
    head = bytes(file.read_at(0, min(512, file.size)))
    if not looks_like_safetensors(head):
        code, what = foreign.recognise_content(head)
        raise AdapterError(f"{printable(file.name)}: {_tell(code, what)}", codes=[code])


def _tell(code: str, what: str) -> str:
    """Return what a file is; what to do about it is written for adapters, and holds for a base if it is a pointer."""
    return what if code == "E_LFS_POINTER" else f"{what.partition(';')[0]}; a base is read from safetensors only"


def _read_config(folder: Path) -> dict[str, Any]:
    if not (folder / "config.json").exists():
        return {}
    data, _ = read_whole(folder / "config.json", _MAX_CONFIG_BYTES)
    if data.startswith(b"version https://git-lfs"):
        raise AdapterError("config.json: is a git-lfs pointer; run git lfs pull")
    try:
        config = json.loads(data)
    except (ValueError, RecursionError) as err:
        raise AdapterError(f"config.json: not JSON ({printable(err, 120)}); download it again") from err
    return config if isinstance(config, dict) else {}
