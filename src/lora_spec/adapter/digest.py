"""Hashes that name an adapter: of its weights and of its config."""

import hashlib
from pathlib import Path

from lora_spec.adapter.files import RegularFile
from lora_spec.adapter.inspection import open_adapter
from lora_spec.errors import ConfigError

_PIECE_BYTES = 4 * 2**20


def weights_sha256(path: Path) -> str:
    """Return the SHA-256 of an adapter's weight file; of its shards one after the other, in order of their names.

    Raises
    ------
    AdapterError
        The path is no folder, or a file becomes shorter while it is read.
    """
    digest = hashlib.sha256()
    with open_adapter(path) as opened:
        for file in opened.weights.files:
            _update(digest, file)
    return digest.hexdigest()


def check_row_weights(path: Path, expected: str | None, *, row: str) -> None:
    """Refuse an adapter whose weights are not those that its row of the pool names.

    Parameters
    ----------
    expected
        ``sha256`` of the row; None where the row does not say, and nothing is checked.

    Raises
    ------
    ConfigError
        They differ: the folder was changed, or the row was not.
    AdapterError
        As :func:`weights_sha256`.
    """
    if expected is not None and (found := weights_sha256(path)) != expected:
        raise ConfigError(
            f"adapter_pool.yaml, row {row!r}: sha256 is {expected}, the weights in {path} have {found}; restore the "
            "folder, or write the new hash and measure again"
        )


def _update(digest: "hashlib._Hash", file: RegularFile) -> None:
    buffer = memoryview(bytearray(min(_PIECE_BYTES, file.size)))
    for start in range(0, file.size, _PIECE_BYTES):
        view = buffer[: min(_PIECE_BYTES, file.size - start)]
        file.read_into(view, start)
        digest.update(view)
