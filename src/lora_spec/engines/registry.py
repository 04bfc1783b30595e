"""Engines by name, imported only when asked for, so that no engine's dependencies are needed to use another."""

from importlib import import_module
from typing import Any

from lora_spec.engines.base import Engine, Replayer
from lora_spec.errors import EngineError

_ENGINES = {
    "vllm_offline": "lora_spec.engines.vllm_offline:VllmOfflineEngine",
    "fake": "lora_spec.engines.fake:FakeEngine",
}
_REPLAYERS = {
    "transformers": "lora_spec.engines.replay:TransformersReplayer",
    "ngram": "lora_spec.engines.ngram_replay:NgramReplayer",
    "fake": "lora_spec.engines.fake:FakeReplayer",
}


def _load(table: dict[str, str], name: str) -> Any:
    if name not in table:
        raise EngineError(f"no engine named {name!r}; choose one of {', '.join(sorted(table))}")
    module, _, attribute = table[name].partition(":")
    try:
        return getattr(import_module(module), attribute)
    except ImportError as err:
        raise EngineError(
            f"engine {name!r} needs a package that is not installed here ({err}); run it in the serving environment"
        ) from err


def open_engine(name: str, **options: Any) -> Engine:
    """Return a started engine; options are those of the class named in the table."""
    return _load(_ENGINES, name)(**options)


def open_replayer(name: str, **options: Any) -> Replayer:
    """Return a replayer; options are those of the class named in the table."""
    return _load(_REPLAYERS, name)(**options)
