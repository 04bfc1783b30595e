#!/bin/sh
# Says of one job of Slurm whether it is running, success or failed. A job that Slurm has forgotten counts as failed; where
# Slurm gives no answer it counts as running, since another one beside it would write the same files.
ask() { squeue --noheader --states=all --format=%T --jobs="$1"; }

if state=$(ask "$1" 2>/dev/null); then
  case $state in
    COMPLETED) echo success ;;
    BOOT_FAIL | CANCELLED | DEADLINE | FAILED | NODE_FAIL | OUT_OF_MEMORY | PREEMPTED | REVOKED | TIMEOUT | "") echo failed ;;
    *) echo running ;;
  esac
else
  case $(ask "$1" 2>&1) in
    *"Invalid job id"* | *"not found"*) echo failed ;;
    *) echo running ;;
  esac
fi
