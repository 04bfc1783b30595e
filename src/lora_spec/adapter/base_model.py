"""The weights of a base model in a local folder, one matrix at a time; nothing is downloaded or imported."""

import json
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from lora_spec.adapter.decode import to_float64, view_stored
from lora_spec.adapter.dtypes import FACTOR_TYPES
from lora_spec.adapter.files import RegularFile, read_whole
from lora_spec.adapter.header import TensorEntry, read_header
from lora_spec.adapter.inspected import InspectedModule
from lora_spec.errors import AdapterError
from lora_spec.printing import printable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_MAX_CONFIG_BYTES = 2**20
_MAX_FILES = 512
_ROOTS = ("model.", "transformer.", "language_model.")


class BaseModel:
    """A base model's config and weight files, opened for reading.

    Raises
    ------
    AdapterError
        The folder holds neither a readable config.json nor safetensors weights.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._files: list[RegularFile] = []
        self._entries: dict[str, TensorEntry] = {}
        try:
            self.config = _read_config(folder)
            names = sorted(path.name for path in folder.glob("*.safetensors") if not path.name.startswith("adapter"))
            for name in names[:_MAX_FILES]:
                self._open(folder / name)
        except (AdapterError, OSError) as err:
            self.close()
            raise AdapterError(f"base model {printable(folder)}: {printable(err, 300)}") from err
        if not self.config and not self._entries:
            what = "holds neither config.json nor *.safetensors; give the folder of the model"
            raise AdapterError(f"base model {printable(folder)}: {what}")

    def _open(self, path: Path) -> None:
        file = RegularFile(path)
        self._files.append(file)
        self._entries |= {entry.name: entry for entry in read_header(file, len(self._files) - 1)}

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

    def fits(self, module: InspectedModule, entry: TensorEntry) -> bool:
        """Tell whether a weight is a matrix of the module's sizes, in either orientation."""
        sizes = (module.out_features, module.in_features)
        return entry.dtype in FACTOR_TYPES and entry.shape in (sizes, sizes[::-1])

    def read(self, module: InspectedModule, entry: TensorEntry) -> "NDArray[np.float32]":
        """Return the weight as float32 of shape ``(out_features, in_features)``, as B @ A is added to it.

        GPT-2's Conv1D and embeddings store the transpose; of a square matrix the kind of module decides.
        """
        import numpy as np

        raw = self._files[entry.file].read_at(entry.start, entry.end - entry.start)
        stored = view_stored(raw, entry.dtype).reshape(entry.shape)
        rows = max(1, 2**20 // entry.shape[1])
        matrix = np.empty(entry.shape, dtype=np.float32)
        for start in range(0, entry.shape[0], rows):
            matrix[start : start + rows] = to_float64(stored[start : start + rows], entry.dtype)
        is_transposed = module.is_embedding or module.type in ("c_attn", "c_proj", "c_fc")
        wanted = (module.out_features, module.in_features)
        return matrix.T if entry.shape != wanted or (is_transposed and wanted == wanted[::-1]) else matrix

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


def _read_config(folder: Path) -> dict[str, Any]:
    if not (folder / "config.json").exists():
        return {}
    data, _ = read_whole(folder / "config.json", _MAX_CONFIG_BYTES)
    try:
        config = json.loads(data)
    except (ValueError, RecursionError) as err:
        raise AdapterError(f"config.json: not JSON ({err})") from err
    return config if isinstance(config, dict) else {}
