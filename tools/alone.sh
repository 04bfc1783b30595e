#!/usr/bin/env bash
# Runs a command unless another one runs in this checkout. (Snakemake's own lock is a file and outlives a killed run.)
# Jobs, too, outlive a killed run: they are found by a mark in their environment and waited for, since two engines side
# by side would spoil both measurements.
set -euo pipefail
here=$(pwd -P)
if [ "${LORA_SPEC_RUN:-}" = "$here" ]; then
  echo "started from inside a run of this checkout, whose end it would wait for; start it from another shell, or unset LORA_SPEC_RUN" >&2
  exit 75
fi
LORA_SPEC_RUN=$here

is_holder_alive() { grep -qzsFx "LORA_SPEC_RUN=$LORA_SPEC_RUN" "/proc/$(cat .running)/environ"; }
leftover_jobs() { grep -lzsFx "LORA_SPEC_RUN=$LORA_SPEC_RUN" /proc/[0-9]*/environ | cut -d/ -f3 | xargs; }

exec 9>>.running
if ! flock --nonblock 9 && is_holder_alive; then
  echo "another run is going on in this checkout (process $(cat .running)); wait for it, or end it" >&2
  exit 75
fi
jobs=$(leftover_jobs || true)
[ -z "$jobs" ] || echo "a killed run left jobs behind (processes $jobs); waiting until they end, or end them (on Slurm with scancel)" >&2
while [ -n "$(leftover_jobs || true)" ]; do sleep 1; done
flock 9
echo $$ >.running
export LORA_SPEC_RUN
exec "$@"
