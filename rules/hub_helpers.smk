"""Helpers of what comes from a model hub, where models lie, and the preflight that downloads and long jobs wait for."""

from functools import cache

from lora_spec.config.preflight_settings import preflight_settings
from lora_spec.measurement.preflight.passed import settled

# What one takes of the disk: of rank 64 on all modules of an 8B model 335 MB, of the small tiers' models 4 MB.
LARGEST_ADAPTER_MB = 400
ADAPTER_MB = (
    LARGEST_ADAPTER_MB if TIER.models.primary.target.source.kind == "hub" else 5
)
PREFLIGHT = f"results/{RUN}/preflight.json"


def passed_preflight():
    """Return what the preflight that passed was told, None where there is none or it does not answer what is asked now."""
    asked = preflight_settings(TIER, ADAPTERS)
    return settled(ROOT / PREFLIGHT, asked, code=code("preflight"), tier=TIER.name)


def asked_of_machine():
    """Return what the preflight is told: as one that passed where that is as much, so that less is no reason for another."""
    return passed_preflight() or preflight_settings(TIER, ADAPTERS)


@cache
def is_preflight_old():
    """Return whether there is a preflight that does not answer what would be asked now, or that cannot be read."""
    return (ROOT / PREFLIGHT).exists() and passed_preflight() is None


def cleared(wildcards):
    """Return the passed preflight where the tier asks for one: rules wait for it, and never run again because of it.

    An old one must be repeated by itself: beside it, Snakemake would pass over what else has changed in rules that wait
    for it (github.com/snakemake/snakemake/issues/4166), and end as if all were done. Where all is forced it passes over
    nothing.
    """
    if TIER.models.preflight is None:
        return []
    if is_preflight_old() and not workflow.dag_settings.forceall:
        pool = "" if POOL == "all" else f" pool={POOL}"
        raise WorkflowError(
            f"{PREFLIGHT} does not answer what configs and code ask now, or cannot be read; repeat it by itself, with your "
            f"profile: .venv/bin/snakemake --workflow-profile profiles/slurm --config tier={TIER.name} measurements=fresh"
            f"{pool} --force -- preflight"
        )
    return ancient(PREFLIGHT)


def hub_dir(source):
    """Return the folder of what comes from the hub."""
    return f"resources/hub/{source.repo}"


def hub_sources():
    """Return repository to source, of models and adapters that come from the hub."""
    models = [
        model for pair in TIER.models.pairs for model in (pair.target, pair.drafter)
    ]
    sources = [model.source for model in models if model.source.kind == "hub"]
    sources += [row for row in TIER.adapter_pool.adapters if row.source == "hub"]
    found = {source.repo: source for source in sources}
    if torn := sorted(s.repo for s in sources if s.revision != found[s.repo].revision):
        raise WorkflowError(
            f"{torn[0]}: stands at two revisions in the configs, and its folder below resources/hub holds one; keep one"
        )
    return found


def hub_source(wildcards):
    """Return the source in the configs of what lies below resources/hub."""
    repo, sources = f"{wildcards.owner}/{wildcards.repo}", hub_sources()
    if repo not in sources:
        raise WorkflowError(
            f"{repo}: stands in no config of tier {TIER.name}; choose one of "
            f"{', '.join(sources) or 'none, since all its models are shipped or made'}"
        )
    return sources[repo]


def hub_source_of(wildcards):
    """Return repository and revision of what lies below resources/hub, as JSON."""
    return chosen(hub_source(wildcards), "repo", "revision")


def hub_size_of(wildcards):
    """Return how much of the disk it takes, MB."""
    source = hub_source(wildcards)
    return getattr(source, "size_mb", LARGEST_ADAPTER_MB)


def size_mb(model):
    """Return the size of a model from the hub, MB."""
    return model.source.size_mb


def target_dir(run=RUN):
    """Return the folder of the served model: from the hub, or built by a run."""
    source = TIER.models.primary.target.source
    return hub_dir(source) if source.kind == "hub" else f"results/{run}/models/target"


def drafter_dir(run=RUN, pair=TIER.models.primary, folder=""):
    """Return the folder of a pair's drafter: from the hub with its vocabulary padded, or put together by a run."""
    is_padded = pair.drafter.source.kind == "hub"
    return (
        f"results/{run}/{folder}models/{'padded_drafter' if is_padded else 'drafter'}"
    )
