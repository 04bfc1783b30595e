#!/bin/sh
# Says of one job of Slurm (123, or 123;cluster) whether it is running, success or failed. A job that Slurm has forgotten
# counts as failed; where Slurm gives no answer it counts as running, since another one beside it would write the same
# files. Where nobody can be asked at all the run ends (code 1), and leaves the job as it is.
id=${1%%;*}
case $1 in *";"*) cluster=--clusters=${1#*;} ;; *) cluster= ;; esac
case $id in "" | *[!0-9]*) echo "$0: '$1' is no id of a job; the first line of what the submit command prints must be" >&2 && exit 1 ;; esac
command -v squeue >/dev/null || { echo "$0: squeue is not on the path" >&2 && exit 1; }
ask() { squeue --noheader --states=all --format=%T ${cluster:+"$cluster"} --jobs="$id"; }

if answer=$(ask 2>/dev/null); then
  # Asked for a cluster, squeue puts its name before the state.
  case $(printf '%s\n' "$answer" | sed '/^CLUSTER:/d; s/[ +].*//') in
    COMPLETED) echo success ;;
    BOOT_FAIL | CANCELLED | DEADLINE | FAILED | NODE_FAIL | OUT_OF_MEMORY | PREEMPTED | REVOKED | TIMEOUT | "") echo failed ;;
    *) echo running ;;
  esac
else
  case $(ask 2>&1) in
    *"Invalid job id"*) echo failed ;;
    *) echo running ;;
  esac
fi
