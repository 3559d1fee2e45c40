# make demo | test | check: each sets up all that it needs and is safe to run again.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
MODEL ?= smollm2-135m

.PHONY: demo test check clean

demo: $(VENV)/.installed
	$(BIN)/redline demo --model $(MODEL)

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
$(VENV)/.installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "redline needs Python 3.11 or newer; name one: make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable .
	@touch $@

$(VENV)/.tools: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --group dev
	@touch $@
