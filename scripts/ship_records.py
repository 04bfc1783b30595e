"""Put the records of adapters that this checkout has measured beside the shipped ones of their tier.

Features, counts and the calibration probe of an adapter must be of the same weights; then its verdict and its place in
the figures come with: make figures TIER=...
"""

import argparse
from pathlib import Path

from lora_spec.cli.output import tell
from lora_spec.cli.script import adapter_name, run_script, tier_name
from lora_spec.features.payload import read_features
from lora_spec.joins import by_adapter, check_named_for, check_same_weights
from lora_spec.measurement.calibration_table import read_calibration
from lora_spec.measurement.record_table import read_records
from lora_spec.predictors.joining import check_joined
from lora_spec.results import write_all_atomically


def main(args: argparse.Namespace) -> None:
    """Run the script."""
    by_adapter(args.names, str, what="names given")
    run, shipped = Path("results") / args.tier, Path("reference") / args.tier
    files = [Path("acceptance") / f"{name}.parquet" for name in args.names]
    files += [Path("features") / f"{name}.json" for name in args.names]
    probes = [Path("calibration") / f"{name}.parquet" for name in args.names]
    probes = [path for path in probes if (run / path).exists()]
    features = {path: read_features(run / path, tier=args.tier) for path in files if path.suffix == ".json"}
    counts = {path: read_records(run / path, tier=args.tier) for path in files if path.suffix == ".parquet"}
    probed = {path: read_calibration(run / path, tier=args.tier) for path in probes}
    for path, item in features.items():
        check_named_for(run / path, item["adapter"]["name"])
    for path, record in {**counts, **probed}.items():
        check_named_for(run / path, record.adapter)
    check_joined(list(features.values()), list(counts.values()))
    counted = {record.adapter: record.adapter_sha256 for record in counts.values()}
    for probe in probed.values():
        weights = {"calibration probe": probe.adapter_sha256, "counts": counted[probe.adapter]}
        check_same_weights(probe.adapter, weights)
    write_all_atomically({shipped / path: (run / path).read_bytes() for path in [*files, *probes]})
    tell(f"{len(args.names)} adapters: {len(files) + len(probes)} files in {shipped}")


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--tier", type=tier_name, required=True, help="folder below results/ and reference/")
parser.add_argument("--names", type=adapter_name, nargs="+", required=True, help="adapters of the tier's pool")

if __name__ == "__main__":
    run_script(parser, main)
