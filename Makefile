# make demo   install into a virtual environment of its own and run the main job on the example tasks
# make test   the same for the tests
# make test-all  those that take minutes as well
# make check  format, lint, types
# make selftest  every known cheat and honest candidate against the judge (some minutes)
VENV ?= .venv
PYTHON ?= python3
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test test-all check selftest clean prerequisites

demo: $(STAMP)
	$(BIN)/python examples/demo.py

test: $(STAMP)
	$(BIN)/python -m pytest -m "not timing and not long and not local_llm" -n 2 --dist loadfile --durations=15
	$(BIN)/python -m pytest -m "timing and not long"

test-all: test
	$(BIN)/python -m pytest -m long

check: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

selftest: $(STAMP)
	$(BIN)/kernelskill judge selftest

prerequisites:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
		{ echo "Python 3.11 or newer is missing: apt-get install python3 python3-venv python3-dev"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
		{ echo "Python's venv is missing: apt-get install python3-venv"; exit 1; }
	@command -v g++ >/dev/null || { echo "g++ is missing: apt-get install g++"; exit 1; }
	@command -v git >/dev/null || { echo "git is missing: apt-get install git"; exit 1; }

$(STAMP): pyproject.toml constraints.txt | prerequisites
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[torch,dev]'
	touch $@

clean:
	rm -rf $(VENV) runs
