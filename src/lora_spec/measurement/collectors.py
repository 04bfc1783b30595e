"""Open what a campaign counts with: an engine, the drafters that replay, and the collector over both."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from lora_spec.engines import AdapterRef, Engine, Replayer, open_engine, open_replayer
from lora_spec.engines.options import offline_options
from lora_spec.errors import MeasurementError
from lora_spec.measurement.collect import Collector, CollectSettings, LoraCollector, MergedCollector


class _Campaign(Protocol):
    phase1: Mapping[str, Any]
    engine: Mapping[str, Any]


class _Folders(Protocol):
    target: Path
    drafter: Path
    early_drafter: Path | None


@contextmanager
def open_collector(campaign: _Campaign, folders: _Folders) -> Iterator[tuple[Engine, Collector]]:
    """Start the engine of a campaign and yield it with its collector; close the engine at the end.

    Raises
    ------
    MeasurementError
        The early drafter is to be replayed and its folder is not given.
    """
    phase1, counting = campaign.phase1, campaign.phase1["counting"]
    settings = CollectSettings.of_phase1(phase1)
    if counting["weights"] == "lora":
        with _lora_engine(campaign, folders) as engine:
            yield engine, LoraCollector(engine, _drafters(campaign, folders), settings)
        return
    with _merged_engine(campaign, folders) as engine:
        rescorer = _transformers(campaign, folders.target) if counting["is_base_text_rescored"] else None
        yield (
            engine,
            MergedCollector(
                engine,
                _drafters(campaign, folders),
                settings,
                weights_of=lambda adapter: _weights(folders.target, adapter),
                rescorer=rescorer,
            ),
        )


def _lora_engine(campaign: _Campaign, folders: _Folders) -> Engine:
    return open_engine(
        "vllm_offline",
        target=str(folders.target),
        drafter=str(folders.drafter),
        num_speculative_tokens=campaign.phase1["max_depth"],
        max_loras=1,
        **offline_options(campaign.engine),
    )


def _merged_engine(campaign: _Campaign, folders: _Folders) -> Engine:
    # Nothing is timed and nothing drafted, so the batch may be as large as the cache allows.
    options = offline_options(campaign.engine) | {"max_num_seqs": campaign.phase1["counting"]["max_num_seqs"]}
    return open_engine("vllm_offline", target=str(folders.target), **options)


def _drafters(campaign: _Campaign, folders: _Folders) -> dict[str, Replayer]:
    makers = {
        "final": lambda: _transformers(campaign, folders.drafter),
        "early": lambda: _transformers(campaign, _early(folders)),
        "ngram": lambda: open_replayer("ngram", max_model_len=campaign.engine["max_model_len"]),
    }
    return {name: makers[name]() for name in campaign.phase1["counting"]["drafters"]}


def _early(folders: _Folders) -> Path:
    if folders.early_drafter is None:
        raise MeasurementError("counting.drafters holds 'early' but no early drafter is given; pass --early-drafter")
    return folders.early_drafter


def _transformers(campaign: _Campaign, model: Path) -> Any:
    engine = campaign.engine
    return open_replayer("transformers", drafter=str(model), dtype=engine["dtype"], num_threads=engine["num_threads"])


def _weights(target: Path, adapter: AdapterRef | None) -> Iterable[tuple[str, Any]]:
    # Imported here: planning a campaign must not load torch.
    from lora_spec.training.merged import merged_weights

    return merged_weights(target, Path(adapter.path) if adapter else None)
