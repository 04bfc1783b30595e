#!/bin/sh
# Says of one job of Slurm whether it is running, success or failed; a job that Slurm has forgotten counts as failed.
case $(squeue --noheader --states=all --format=%T --jobs="$1" 2>/dev/null) in
  PENDING | CONFIGURING | RUNNING | COMPLETING | SUSPENDED | REQUEUED) echo running ;;
  COMPLETED) echo success ;;
  *) echo failed ;;
esac
