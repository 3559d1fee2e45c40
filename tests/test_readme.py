"""The numbers in README.md are those of the committed results, and its tree is the real one."""

import importlib.util
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_tables_come_from_results():
    spec = importlib.util.spec_from_file_location("tables", ROOT / "benchmarks" / "tables.py")
    tables = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tables)
    for page in tables.PAGES:
        text = page.read_text(encoding="utf-8")
        assert tables.fill(text) == text
    assert "| **all** |" in README


def test_links_lead_somewhere():
    for link in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / link).exists(), link


def test_the_tree_is_the_real_one():
    named = set(re.findall(r"^[├└]── (\w+)/", README, flags=re.MULTILINE))
    assert named == {path.parent.name for path in (ROOT / "redline").glob("*/__init__.py")}
