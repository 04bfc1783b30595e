#!/usr/bin/env bash
# Runs a command unless another one runs under this lock, which dies with its holder and the holder's children.
# Snakemake's own lock is a file and would outlive a killed run.
set -euo pipefail
exec 9>.running
flock --nonblock 9 || { echo "another run is going on in this checkout; wait for it, or end it" >&2; exit 75; }
exec "$@"
