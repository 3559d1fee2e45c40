"""What an import costs: nothing heavy before it is used."""

import pkgutil
import subprocess
import sys

import pytest

import redline.core

HEAVY = (
    "torch", "transformers", "llama_cpp", "llguidance", "pytest", "hypothesis", "gguf", "tokenizers", "rich",
    "typer",
)  # fmt: skip


def loaded_by(code):
    """Top-level names in sys.modules after running some code in a fresh interpreter."""
    code += "; import sys; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(run.stdout.split())


@pytest.mark.parametrize(
    "module", ["redline", "redline.core", "redline.engine", "redline.backends", "redline.grammar"]
)
def test_an_import_loads_nothing_heavy(module):
    assert not loaded_by(f"import {module}") & set(HEAVY)


def test_the_core_needs_numpy_and_the_standard_library_only():
    """Every module of it, without the public names that redline/__init__.py collects from other folders."""
    found = pkgutil.walk_packages(redline.core.__path__, "redline.core.")
    modules = [module.name for module in found]
    assert len(modules) > 15
    bare = "import sys, types; sys.modules['redline'] = types.ModuleType('redline'); "
    bare += f"sys.modules['redline'].__path__ = {list(redline.__path__)}"
    ours = loaded_by(f"{bare}; import {', '.join(modules)}") - loaded_by("import numpy")
    assert {name for name in ours if name not in sys.stdlib_module_names} == {"redline"}
