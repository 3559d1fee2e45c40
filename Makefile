# make demo | demo-pair | test | check: each sets up all that it needs and is safe to run again.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
MODEL ?= smollm2-135m

# setuptools warns of folders that have a package's name, at great length; there is only the one here.
INSTALL := PYTHONWARNINGS="ignore:Editable installation" $(BIN)/python -m pip install --quiet \
	--constraint constraints.txt --editable

# llama.cpp is compiled when it is installed, for this machine: minutes on two cores.
export CMAKE_BUILD_PARALLEL_LEVEL ?= $(shell nproc 2>/dev/null || echo 2)

.PHONY: demo demo-pair test check clean

demo: $(VENV)/.installed
	$(BIN)/redline demo --model $(MODEL)

demo-pair: $(VENV)/.llama
	$(BIN)/redline demo --model qwen2.5-coder-1.5b --draft qwen2.5-coder-0.5b

test: $(VENV)/.tools
	$(BIN)/redline models pull smollm2-135m
	$(BIN)/python -m pytest --cov --cov-report=
	$(BIN)/python -m coverage report --skip-covered
	$(BIN)/python -m coverage report --include='redline/core/*,redline/engine/*' --skip-covered --fail-under=100

check: $(VENV)/.tools
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

clean:
	rm -rf $(VENV)

# The stamps are written last, so that an installation cut short is taken up again.
$(VENV)/.installed: pyproject.toml constraints.txt setup.py $(wildcard redline/backends/native/kernels/*.[ch])
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "redline needs Python 3.11 or newer; name one: make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(INSTALL) .
	@touch $@

$(VENV)/.llama: $(VENV)/.installed
	@echo "Installing llama.cpp; it is compiled for this machine, which takes some minutes the first time."
	$(INSTALL) ".[llama]"
	@touch $@

$(VENV)/.tools: $(VENV)/.llama
	$(INSTALL) ".[all]" --group dev
	@touch $@
