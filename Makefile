# Two commands do everything on a fresh clone: `make demo` and `make test`.
# Each keeps a stamp in .venv, so a second run starts at once; editing pyproject.toml or constraints.txt reinstalls.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/pip --disable-pip-version-check -q
DEPS   := pyproject.toml constraints.txt

PANEL ?= ../shared/data
ONLY  ?=
AGAIN ?=

.PHONY: demo test hostile lint types docs results integrations package clean

demo: $(VENV)/.base
	$(BIN)/scff demo

test: $(VENV)/.test
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal $(ARGS)

# Bad inputs, kills and faults, forged files: all of them. The quick part is in `make test`; the figures are in the docs.
hostile: $(VENV)/.test
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal -q tests/hostile --hostile --figures docs/reliability.csv $(ARGS)

lint: $(VENV)/.lint
	$(BIN)/ruff check . && $(BIN)/ruff format --check .

types: $(VENV)/.lint $(VENV)/.test
	$(BIN)/mypy

# Warnings are errors, and the gallery runs on the way.
docs: $(VENV)/.docs
	$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

# The benchmarks behind the figures of README and documentation. What is recorded in benchmarks/results is not run again:
# AGAIN=1 does that for all that other code than the present recorded, which takes hours and goes on after an interruption.
# ONLY="studies rivals" runs some of them; NOT_MADE in the script says which are left out, and why.
# Tables of the two pages of results are written, other figures are read off what is printed. Fails if a page names a
# checkpoint that is not the package's.
results: $(VENV)/.test
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/results.py --data $(PANEL) $(if $(AGAIN),--again) $(if $(ONLY),--only $(ONLY))

# AutoGluon, TabArena and MLflow hold other packages back, so they get an environment of their own; so do Spark, which
# also needs Java (Debian's default-jre-headless), Dask and FastAPI, which nothing else needs.
INTEGRATIONS := tabarena 'autogluon.tabular[lightgbm]' mlflow-skinny pyspark 'dask[dataframe]' fastapi httpx

integrations: .venv-integrations/.done
	OMP_NUM_THREADS=1 .venv-integrations/bin/python -m pytest -p no:cacheprovider tests/test_integrations.py $(ARGS)

.venv-integrations/.done: pyproject.toml
	test -x .venv-integrations/bin/python || $(PYTHON) -m venv .venv-integrations
	.venv-integrations/bin/pip install -q "$$(grep '^torch==' constraints.txt)"
	.venv-integrations/bin/pip install -q -e . $(INTEGRATIONS) pytest matplotlib
	touch $@

# Wheel and sdist, checked; the wheel installed where nothing else is, and the demo run from it, away from the sources;
# the Galaxy tool through Galaxy's own linter, the conda recipe through rattler-build's own parser.
package: build/env-package/.done
	rm -rf dist build/env-wheel
	build/env-package/bin/python -m build --outdir dist .
	build/env-package/bin/twine check --strict dist/*
	build/env-package/bin/python packaging/check.py
	$(PYTHON) -m venv build/env-wheel
	build/env-wheel/bin/pip install -q "$$(grep '^torch==' constraints.txt)"
	build/env-wheel/bin/pip install -q -c constraints.txt dist/*.whl
	build/env-wheel/bin/pip check
	cd build/env-wheel && bin/scff demo --backbone nano

build/env-package/.done: Makefile
	test -x build/env-package/bin/python || $(PYTHON) -m venv build/env-package
	build/env-package/bin/pip install -q build twine galaxy-tool-util edam-ontology lxml py-rattler-build
	touch $@

# torch comes first and by its pinned version: that is the CPU build, and nothing later replaces it.
$(VENV)/.base: $(DEPS)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install "$$(grep '^torch==' constraints.txt)"
	$(PIP) install -c constraints.txt -e .
	touch $@

$(VENV)/.test: $(VENV)/.base
	$(PIP) install -c constraints.txt -e '.[test]'
	touch $@

$(VENV)/.docs: $(VENV)/.base
	$(PIP) install -c constraints.txt -e '.[docs]'
	touch $@

$(VENV)/.lint: $(VENV)/.base
	$(PIP) install -c constraints.txt -e '.[lint]'
	touch $@

clean:
	rm -rf $(VENV) .venv-integrations docs/_build docs/gallery docs/api/generated build dist .pytest_cache .mypy_cache .ruff_cache

# The released package shares its import name with today's tabpfn: an environment of its own.
.PHONY: parity-tabpfn-v1
parity-tabpfn-v1:
	test -x build/env-tabpfn-v1/bin/python || $(PYTHON) -m venv build/env-tabpfn-v1
	build/env-tabpfn-v1/bin/pip install -q "$$(grep '^torch==' constraints.txt)"
	build/env-tabpfn-v1/bin/pip install -q -e . tabpfn==0.1.11 'scikit-learn==1.7.2'
	build/env-tabpfn-v1/bin/python benchmarks/tabpfn_v1_parity.py

# Packages whose pins conflict with those of `make test` have an environment each; the contract suite runs what it can
# import.
.PHONY: contract contract-tabtune contract-tabdpt-tabfm
contract: contract-tabtune contract-tabdpt-tabfm

contract-tabtune: build/env-tabtune/.done
	build/env-tabtune/bin/python -m pytest tests/test_backbone_contract.py -k 'limix or orion or mitra' $(ARGS)

contract-tabdpt-tabfm: build/env-tabdpt-tabfm/.done
	build/env-tabdpt-tabfm/bin/python -m pytest tests/test_backbone_contract.py -k 'tabdpt or tabfm' $(ARGS)

# tabtune's own dependencies are every model it wraps; its LimiX, Orion-MSP and Mitra need only these.
build/env-tabtune/.done: PACKAGES = kditransform einops einx
build/env-tabdpt-tabfm/.done: PACKAGES = 'tabdpt==1.3.1' 'tabfm==1.0.1' einx loguru
build/env-%/.done: $(DEPS)
	test -x $(@D)/bin/python || $(PYTHON) -m venv $(@D)
	$(@D)/bin/pip install -q "$$(grep '^torch==' constraints.txt)"
	$(@D)/bin/pip install -q $(PACKAGES)
	case $* in tabtune) $(@D)/bin/pip install -q --no-deps 'tabtune==0.2.1';; esac
	$(@D)/bin/pip install -q -e . pytest
	touch $@
