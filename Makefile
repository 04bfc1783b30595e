# The front door: every target sets up what it needs, and can be interrupted and repeated.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# An interpreter of version 3.11, where python3.11 is not on the path.
PYTHON ?=
TIER ?= mini
# serving-gpu on a machine with NVIDIA GPUs, once; then it stays until serving-cpu is asked for.
SERVING ?= serving
MEASUREMENTS ?= fresh
RUN = $(TIER)$(if $(filter shipped,$(MEASUREMENTS)),-shipped)
CORES ?= 2
comma := ,
STARTED := $(shell date +%s)
SNAKEMAKE = tools/alone.sh .venv/bin/snakemake --nolock --workflow-profile profiles/local --cores $(CORES)

export PYTHONUTF8 := 1
export PYTHONNOUSERSITE := 1
export HF_HUB_OFFLINE := 1
export VLLM_NO_USAGE_STATS := 1
export DO_NOT_TRACK := 1
# A profile of one's own would mix with ours: another executor, resources cut down.
unexport PYTHONPATH PYTHONHOME VIRTUAL_ENV SNAKEMAKE_PROFILE

.PHONY: help env env-analysis need-records reproduce test lint test-unit test-serving test-slurm figures report compare adapter step-cost cpu slurm plan-paper clean

help: ## this list
	@echo "LoRA-Spec: how should speculative decoding be deployed for each LoRA adapter?"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' Makefile

env: ## both environments (3 minutes the first time, then nothing)
	@PYTHON="$(PYTHON)" bash tools/setup_env.sh analysis $(SERVING)

env-analysis:
	@PYTHON="$(PYTHON)" bash tools/setup_env.sh analysis

reproduce: env ## measure, decide and draw the mini tier with real vLLM (14 minutes, set-up included)
	@$(SNAKEMAKE) --config tier=mini measurements=fresh
	@$(SNAKEMAKE) --config tier=mini measurements=fresh --report results/mini/report.html >logs/report.log 2>&1 || { cat logs/report.log; exit 1; }
	@.venv/bin/python scripts/summarize.py --run mini --started $(STARTED)

test: env lint test-unit test-serving test-slurm ## style, unit, workflow, serving and cluster tests (about 25 minutes)

lint: env-analysis ## style and structure only (15 seconds)
	@.venv/bin/ruff check --quiet .
	@.venv/bin/ruff format --check --quiet .
	@.venv/bin/snakefmt --check Snakefile rules 2>logs/setup/snakefmt.log || { cat logs/setup/snakefmt.log; exit 1; }
	@.venv/bin/lint-imports --no-cache >logs/setup/lint-imports.log || { cat logs/setup/lint-imports.log; exit 1; }
	@.venv/bin/snakemake --lint >logs/setup/snakemake-lint.log 2>&1 || { cat logs/setup/snakemake-lint.log; exit 1; }
	@echo "style and structure: clean"

test-unit: env-analysis ## tests without torch and vLLM (about 9 minutes)
	@.venv/bin/python -m pytest -q

# Only the files that hold serving tests are collected: the others import what that environment does not have.
test-serving: env ## tests on real vLLM with a tiny model (about 9 minutes)
	@.venv-serving/bin/python -m pytest -q -m serving $$(grep -rl --include='test_*.py' 'mark\.serving' tests | sort)

test-slurm: env ## tests on a Slurm of one node, as root with Debian's Slurm packages, else skipped (4 minutes)
	@.venv/bin/python -m pytest -q -m slurm tests/slurm

# A tier without shipped records has nothing to redraw.
need-records:
	@test -d reference/$(TIER)/acceptance || { echo "tier $(TIER) ships no records yet: run make with TIER=mini" >&2; exit 2; }

figures: env-analysis need-records ## redraw the figures of TIER from shipped records, no engine (2 minutes)
	@$(SNAKEMAKE) --config tier=$(TIER) measurements=shipped
	@echo "figures and tables: results/$(TIER)-shipped"

report: env-analysis ## HTML report of a finished run of TIER, MEASUREMENTS=fresh or shipped (30 seconds)
	@$(SNAKEMAKE) --config tier=$(TIER) measurements=$(MEASUREMENTS) --report results/$(RUN)/report.html >logs/report.log 2>&1 || { cat logs/report.log; exit 1; }
	@echo "report: results/$(RUN)/report.html"

compare: env-analysis need-records ## new numbers of a finished run of TIER against the shipped ones: PASS or DIFF (1 minute)
	@test -f results/$(TIER)/verdicts.csv || { echo "no finished run of tier $(TIER) to compare: make $(if $(filter cpu,$(TIER)),cpu,reproduce) first" >&2; exit 2; }
	@$(SNAKEMAKE) --config tier=$(TIER) measurements=shipped --quiet all
	@.venv/bin/python scripts/compare.py --runs $(TIER) $(TIER)-shipped

# NAME may hold several names with commas between them.
adapter: env ## train, measure and add one adapter of TIER by its NAME in adapter_pool.yaml (10 minutes)
	@test -n "$(NAME)" || { echo "which adapter? make adapter TIER=$(TIER) NAME=a-row-of-configs/$(TIER)/adapter_pool.yaml" >&2; exit 2; }
	@$(SNAKEMAKE) --config tier=$(TIER) measurements=fresh "pool=$(NAME)" -- records
	@.venv/bin/python scripts/ship_records.py --tier $(TIER) --names $(subst $(comma), ,$(NAME))

step-cost: env ## time what a step of TIER is made of, on a quiet machine (4 minutes, TIER=cpu 9)
	@$(SNAKEMAKE) --config tier=$(TIER) measurements=fresh -- results/$(TIER)/cost_parts.json
	@echo "timed: results/$(TIER)/cost_parts.json (the target step_cost fits it and holds it against its held-out cells)"

cpu: env ## the study at small scale, resumable (about 10 hours)
	@$(SNAKEMAKE) --config tier=cpu measurements=fresh

# Models of a hub are fetched by a rule that stays on this machine.
slurm: env-analysis ## the study of TIER on a Slurm cluster, resumable: read docs/cluster.md first
	@env --unset=HF_HUB_OFFLINE tools/alone.sh .venv/bin/snakemake --workflow-profile profiles/slurm --config tier=$(TIER) measurements=fresh

plan-paper: env-analysis ## what the paper tier takes on a cluster: rules, jobs, GPU hours, disk; runs nothing (20 seconds)
	@.venv/bin/python scripts/plan_campaign.py --tier paper --profile profiles/slurm

clean: ## remove results, logs and caches; keeps reference/, resources/ and the environments
	@test ! -d results || find -H results -mindepth 1 -maxdepth 1 ! -name README.md -exec rm -rf {} +
	@rm -rf logs .snakemake .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	@echo "cleaned; make reproduce measures anew"
