# `make demo` and `make test` set everything up by themselves; nothing outside .venv is touched.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PYTEST_ARGS ?=

.PHONY: demo test lint rules docs drift bench wheel e2e clean help

help:
	@echo "make demo   set up and diagnose a shipped real log"
	@echo "make test   set up and run the tests"
	@echo "make lint   ruff, mypy, rules and generated files up to date"
	@echo "make rules  check every rule and write the pack that ships"
	@echo "make docs   write docs/rules/ from the rules"
	@echo "make drift  look for the literals of rules in nine SGLang wheels (downloads them)"
	@echo "make bench  compare with ripgrep (needs rg)"
	@echo "make e2e    install a real SGLang (7 GB, once), break it and try the corrected commands; E2E=quick tries five"
	@echo "make wheel  build the wheel and try it outside the repository"

$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --group dev --editable .
	touch $@

demo: $(READY)
	@FORCE_COLOR=1 $(BIN)/doctor explain fixtures/seed/invalid_device_ordinal.log || test $$? -eq 1

test: $(READY)
	$(BIN)/python -m pytest $(PYTEST_ARGS)

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python tools/pack_rules.py --check
	$(BIN)/python tools/rule_pages.py --check
	$(BIN)/python tools/readme_help.py --check

rules: $(READY)
	$(BIN)/python tools/pack_rules.py
	$(BIN)/python tools/rule_pages.py

docs: $(READY)
	$(BIN)/python tools/rule_pages.py
	$(BIN)/python tools/readme_help.py

drift: $(READY)
	$(BIN)/python tools/drift.py

bench: $(READY)
	$(BIN)/python benchmarks/explain.py

wheel: $(READY)
	sh tools/try_wheel.sh $(PYTHON)

e2e: $(READY)
	sh tools/e2e_install.sh
	PROOF=docs/proof.md $(BIN)/python -m pytest tests/e2e -m '$(if $(filter quick,$(E2E)),e2e and quick,e2e)' $(PYTEST_ARGS)

clean:
	rm -rf $(VENV) dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis
