#!/usr/bin/env bash
# Builds the pinned environments that are named: analysis (.venv), and serving-cpu or serving-gpu (.venv-serving).
# The name serving is the one of both that was chosen here before, at first serving-cpu.
#
# Safe to interrupt and to repeat: a stamp, written last, holds what the environment was built from. An environment
# without that stamp is built anew; one with it is left alone. What pip says goes to logs/setup/.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Asked only where the package index in use does not have the CPU build of torch.
readonly pytorch_cpu_index=https://download.pytorch.org/whl/cpu

unset PYTHONPATH PYTHONHOME
export PYTHONNOUSERSITE=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 PIP_USER=0

say() { printf 'set-up: %s\n' "$*" >&2; }

refuse() {
  say "$*"
  exit 2
}

is_python_311() { "$1" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' >/dev/null 2>&1; }

find_python() {
  local candidate
  if [ -n "${PYTHON:-}" ]; then
    is_python_311 "$PYTHON" || refuse "PYTHON='$PYTHON' is no interpreter of version 3.11; correct it, or leave it out"
    echo "$PYTHON"
    return
  fi
  for candidate in python3.11 python3; do
    if is_python_311 "$candidate"; then
      echo "$candidate"
      return
    fi
  done
  refuse "Python 3.11 not found; apt install python3.11 python3.11-venv, or name it: make PYTHON=/path/to/python3.11"
}

check_machine() {
  [ "$(uname -sm)" = "Linux x86_64" ] ||
    refuse "the locked environments are for Linux x86_64, this is $(uname -sm); use such a machine or a container"
  "$python" -c 'import ensurepip, venv' 2>/dev/null ||
    refuse "$python has no venv module; apt install python3.11-venv"
}

check_compiler() {
  command -v gcc >/dev/null || refuse "gcc not found, which the serving environment needs; apt install gcc"
}

# What an environment is built from: locks, interpreter, and the place, since a venv cannot be moved.
fingerprint() { { cat "$@"; "$python" -VV; pwd -P; } | sha256sum | cut -d' ' -f1; }

run_pip() { "$venv/bin/python" -m pip --no-color "$@" >>"$log" 2>&1; }

fail() {
  say "$1 failed; the last lines of $log:"
  grep -v '^WARNING: Location' "$log" | tail -n 8 >&2
  exit 1
}

install_torch() {
  local pin
  pin=$(grep -v '^#' envs/torch-cpu.lock)
  say "$venv: $pin"
  run_pip install --no-deps --no-compile -r envs/torch-cpu.lock && return
  grep -q 'No matching distribution found for torch==' "$log" || fail "installing $pin"
  say "$venv: the package index in use has no $pin; taking it from $pytorch_cpu_index"
  run_pip install --no-deps --no-compile --index-url "$pytorch_cpu_index" -r envs/torch-cpu.lock || fail "installing $pin"
}

install_packages() {
  local lock=$1 minutes=$2
  say "$venv: $(grep -c == "$lock") packages from $lock, about $minutes"
  run_pip install --no-deps --no-compile --require-hashes -r "$lock" || fail "installing $lock"
  # pip compiles on one core. Some packages ship files for other Pythons, which cannot compile and need not.
  "$venv/bin/python" -m compileall -q -j 0 "$venv/lib" >>"$log" 2>&1 || true
}

install_project() {
  local want
  want=$(fingerprint pyproject.toml)
  [ "$(cat "$venv/.project-stamp" 2>/dev/null)" = "$want" ] && return
  say "$venv: lora-spec itself, editable"
  run_pip install --no-deps --no-build-isolation --editable . || fail "installing lora-spec"
  echo "$want" >"$venv/.project-stamp"
}

build() {
  local name=$1 minutes=$2 want
  shift 2
  log=logs/setup/$name.log
  mkdir -p logs/setup
  exec 9>"logs/setup/$name.lock"
  if ! flock --nonblock 9; then
    say "$venv: waiting for another set-up of it"
    flock 9
  fi
  want=$(fingerprint "$@")
  if [ "$(cat "$venv/.packages-stamp" 2>/dev/null)" != "$want" ]; then
    say "$venv: new environment ($("$python" -V))"
    # The name comes first, so that an interruption at any time leaves it: it is the choice between CPUs and GPUs.
    rm -rf "$venv.old"
    [ ! -e "$venv" ] || mv "$venv" "$venv.old"
    mkdir "$venv"
    echo "$name" >"$venv/.built-as"
    rm -rf "$venv.old"
    : >"$log"
    "$python" -m venv "$venv" >>"$log" 2>&1 || fail "creating $venv"
    [ $# -eq 1 ] || install_torch
    install_packages "$1" "$minutes"
    echo "$want" >"$venv/.packages-stamp"
  fi
  install_project
  exec 9>&-
}

# An environment that conda manages has no stamp; its owner keeps it in step with the lock.
is_of_conda() { case $1 in analysis) [ -d .venv/conda-meta ] ;; *) [ -d .venv-serving/conda-meta ] ;; esac; }

# What was chosen before; a file that a full disk left empty says nothing.
built_as() {
  case $(cat .venv-serving/.built-as 2>/dev/null) in
    serving-gpu) echo serving-gpu ;;
    *) echo serving-cpu ;;
  esac
}

[ $# -gt 0 ] || refuse "name the environments to build: analysis, serving, serving-cpu or serving-gpu"
python=
for name in "$@"; do
  if is_of_conda "$name"; then continue; fi
  if [ -z "$python" ]; then
    python=$(find_python)
    check_machine
  fi
  [ "$name" != serving ] || name=$(built_as)
  case $name in
    analysis) venv=.venv && build analysis "a minute" envs/analysis.lock ;;
    serving-cpu) venv=.venv-serving && check_compiler && build serving-cpu "two minutes" envs/serving-cpu.lock envs/torch-cpu.lock ;;
    serving-gpu) venv=.venv-serving && check_compiler && build serving-gpu "ten minutes" envs/serving-gpu.lock ;;
    *) refuse "no environment '$name'; choose analysis, serving, serving-cpu or serving-gpu" ;;
  esac
done
