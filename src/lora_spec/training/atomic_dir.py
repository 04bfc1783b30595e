"""A directory that appears whole or not at all."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def atomic_dir(out_dir: Path) -> Iterator[Path]:
    """Yield a sibling directory to write into, and rename it to ``out_dir`` when the block ends well.

    What ``out_dir`` held before is replaced. When the block raises, ``out_dir`` stays as it was.
    """
    out_dir.parent.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(prefix=f".{out_dir.name}.part-", dir=out_dir.parent))
    try:
        yield part
        # mkdtemp and safetensors write for their owner alone; a result is as readable as its parent.
        mode = out_dir.parent.stat().st_mode
        part.chmod(mode & 0o777)
        for path in part.rglob("*"):
            path.chmod(mode & (0o777 if path.is_dir() else 0o666))
        if out_dir.exists():
            shutil.rmtree(out_dir)
        part.rename(out_dir)
    finally:
        shutil.rmtree(part, ignore_errors=True)
