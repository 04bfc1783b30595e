#!/bin/sh
# Ends jobs of Slurm (123, or 123;cluster), all at once: Snakemake waits two seconds for it.
here=
for job in "$@"; do
  case $job in
    *";"*) scancel --clusters="${job#*;}" "${job%%;*}" & ;;
    *) here="$here $job" ;;
  esac
done
[ -z "$here" ] || scancel $here
wait
