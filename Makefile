# Each target sets up what it needs on first use: Python ≥ 3.11 and make are enough.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
READY := $(VENV)/.ready

.PHONY: demo docs test test-all lint bench competition scoreboard peers clean

$(READY): pyproject.toml studies/pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit("cagp needs Python 3.11 or newer, this is " + sys.version.split()[0] + "; try: make PYTHON=python3.11") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)
	@# torch first and alone: its CPU build satisfies everything else
	$(RUN) -m pip install --quiet --constraint constraints.txt torch
	$(RUN) -m pip install --quiet --constraint constraints.txt --editable '.[dev]' --editable ./studies
	@touch $(READY)

demo: $(READY)  ## the paper's synthetic problem: figures and a report in demo/
	$(RUN) -m cagp reproduce synthetic sbc --scale quick --out demo

docs: $(READY)  ## the documentation, in docs/_build/html
	$(RUN) -m sphinx -W --keep-going -b html docs docs/_build/html

# a process for each core, with one thread each; a file stays in one process, for its fixtures, until another has no work
PYTEST := $(RUN) -m pytest -n logical --maxprocesses 8 --dist worksteal

test: $(READY)  ## all tests but the slow ones
	$(PYTEST) -m 'not slow'

# random examples where somebody is there to look at what they find: where CI is set the run repeats itself exactly
test-all: export HYPOTHESIS_PROFILE ?= $(if $(CI),default,random)
test-all: $(READY)  ## all tests
	$(PYTEST) -m 'slow or not slow'

lint: $(READY)
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy

bench: $(READY)  ## speed, as ratios taken side by side; rewrites docs/performance.md
	$(RUN) benchmarks/gauss_seidel.py
	$(RUN) benchmarks/time_to_accuracy.py
	$(RUN) benchmarks/same_prediction.py
	$(RUN) benchmarks/growth.py
	$(RUN) benchmarks/growing.py
	$(RUN) benchmarks/latency.py
	$(RUN) benchmarks/neighbours.py
	$(RUN) benchmarks/auto.py
	$(RUN) benchmarks/beside_a_busy_process.py
	$(RUN) benchmarks/likelihood.py
	$(RUN) benchmarks/sbc.py
	$(RUN) benchmarks/cluster.py
	$(RUN) benchmarks/performance_page.py

competition: $(READY)  ## the competition of Heaton et al. at full size; rewrites docs/competition.md and its figures
	$(RUN) docs/make_competition.py

scoreboard: $(READY)  ## one frozen protocol on all sets, needs CAGP_DATA; rewrites docs/scoreboard.md
	$(RUN) docs/make_scoreboard.py

# other packages live in an environment of their own, at the versions of the extra "peers"
PEERS := .venv-peers
$(PEERS)/.ready: pyproject.toml studies/pyproject.toml constraints.txt
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --constraint constraints.txt torch
	$(PEERS)/bin/python -m pip install --quiet --constraint constraints.txt --editable '.[peers]' --editable ./studies
	@touch $(PEERS)/.ready

peers: $(PEERS)/.ready  ## other packages side by side, needs CAGP_DATA; goes on where it stopped; rewrites docs/comparison.md
	$(PEERS)/bin/python benchmarks/peers.py
	$(PEERS)/bin/python benchmarks/peers_page.py

clean:
	rm -rf $(VENV) $(PEERS) demo out dist build docs/_build .pytest_cache .mypy_cache .ruff_cache
