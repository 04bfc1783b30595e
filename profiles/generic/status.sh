#!/bin/sh
# Says of one job of Slurm whether it is running, success or failed. A job that Slurm has forgotten counts as failed; where
# Slurm gives no answer it counts as running, since another one beside it would write the same files.
if answer=$(squeue --noheader --states=all --format=%T --jobs="$1" 2>&1); then
  case $answer in
    COMPLETED) echo success ;;
    BOOT_FAIL | CANCELLED | DEADLINE | FAILED | NODE_FAIL | OUT_OF_MEMORY | PREEMPTED | REVOKED | TIMEOUT | "") echo failed ;;
    *) echo running ;;
  esac
else
  case $answer in
    *"Invalid job id"*) echo failed ;;
    *) echo running ;;
  esac
fi
