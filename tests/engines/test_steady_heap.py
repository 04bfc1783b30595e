"""Which allocator a server gets that must show leaks."""

import pytest

from lora_spec.engines import steady_heap as room
from lora_spec.engines.steady_heap import steady_heap


@pytest.fixture
def installed(monkeypatch):
    """Return a function that says which libraries the machine has and what is preloaded."""

    def install(libraries, preloaded=None):
        monkeypatch.setattr(room, "find_library", libraries.get)
        monkeypatch.delenv("LD_PRELOAD", raising=False)
        if preloaded is not None:
            monkeypatch.setenv("LD_PRELOAD", preloaded)

    return install


def test_tcmalloc_goes_before_what_is_preloaded(installed):
    installed({"tcmalloc_minimal": "libtcmalloc_minimal.so.4"}, preloaded="lib/libiomp5.so")
    assert steady_heap()["LD_PRELOAD"] == "libtcmalloc_minimal.so.4:lib/libiomp5.so"


def test_it_stands_alone_where_nothing_is_preloaded(installed):
    installed({"tcmalloc": "libtcmalloc.so.4"})
    assert steady_heap()["LD_PRELOAD"] == "libtcmalloc.so.4"


def test_what_the_user_preloads_stays(installed):
    installed({"tcmalloc_minimal": "libtcmalloc_minimal.so.4"}, preloaded="my/libtcmalloc.so:lib/libiomp5.so")
    assert steady_heap()["LD_PRELOAD"] == "my/libtcmalloc.so:lib/libiomp5.so"


def test_without_tcmalloc_large_blocks_lie_outside_the_heap(installed):
    installed({}, preloaded="lib/libiomp5.so")
    assert set(steady_heap()) == {"MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"}


def test_tcmalloc_gives_back_at_once_what_is_freed(installed):
    for libraries, preloaded in (({"tcmalloc": "libtcmalloc.so.4"}, None), ({}, "libtcmalloc.so")):
        installed(libraries, preloaded)
        assert steady_heap()["TCMALLOC_AGGRESSIVE_DECOMMIT"] == "1"
