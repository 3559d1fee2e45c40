"""The page works as it stands."""

import re
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType

import pytest

from redline.core.errors import OptionError
from redline.core.stop import Limits
from redline.drafters import registry
from redline.engine import Engine, generate
from redline.engine.load import load
from redline.testing import DrafterContract, ToyBackend

PAGE = (Path(__file__).parents[2] / "docs" / "write-a-drafter.md").read_text()
CODE = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[0]
NAMED = re.search(r'```toml\n\[project.entry-points."(.*)"\]\n(\S+) = "(.*)"\n', PAGE).groups()


@pytest.fixture
def module(monkeypatch):
    module = ModuleType("last_time")
    exec(CODE, module.__dict__)
    monkeypatch.setitem(sys.modules, "last_time", module)
    return module


def installed(monkeypatch, *points):
    monkeypatch.setattr(registry, "entry_points", lambda group: [p for p in points if p.group == group])
    registry.plugins.cache_clear()


@pytest.fixture(autouse=True)
def _nothing_stays():
    yield
    registry.plugins.cache_clear()


class TestLastTime(DrafterContract):
    @pytest.fixture
    def drafter(self, module):
        return module.LastTime(None)


def test_it_is_about_thirty_lines():
    assert len([line for line in CODE.splitlines() if line.strip()]) <= 32


def test_it_is_found_by_name_alone_and_with_others(monkeypatch, module):
    group, name, value = NAMED
    installed(monkeypatch, EntryPoint(name, value, group))
    target = ToyBackend(order=1)
    plain = generate(Engine(target), [1, 2, 1], limits=Limits(40))
    for draft in ("last-time", "last-time+suffix", "merge:suffix+last-time"):
        result = generate(load(target, draft), [1, 2, 1], limits=Limits(40))
        assert result.tokens == plain.tokens
        assert result.metrics.sources["last-time"].seconds > 0
    assert generate(load(target, "last-time"), [1, 2, 1], limits=Limits(40)).metrics.accepted > 0
    assert registry.origin("last-time") == "last_time:LastTime"
    assert registry.origin("suffix") == "redline"


def test_no_package_takes_a_name_of_redlines_own(monkeypatch):
    points = [EntryPoint(name, "evil:It", NAMED[0]) for name in ("none", "auto", "suffix", "other")]
    installed(monkeypatch, *points)
    assert list(registry.plugins()) == ["other"]


def test_a_drafter_without_a_name_is_none(monkeypatch, module):
    group, name, value = NAMED
    monkeypatch.setattr(module.LastTime, "name", None)
    installed(monkeypatch, EntryPoint(name, value, group))
    with pytest.raises(OptionError, match="is no Drafter"):
        load(ToyBackend(), f"{name}+suffix")


def test_explain_lists_it_and_a_broken_one(monkeypatch, module, capsys):
    from redline.cli.explain import explain

    group, name, value = NAMED
    installed(monkeypatch, EntryPoint(name, value, group), EntryPoint("gone", "no_such_module:It", group))
    explain("drafters")
    out = capsys.readouterr().out
    assert "last-time" in out
    assert "Guesses that every token is followed by what followed it last time." in out
    assert "It cannot be loaded: ModuleNotFoundError" in out
    with pytest.raises(OptionError, match="The drafter gone of no_such_module:It cannot be made") as error:
        registry.make("gone", ToyBackend())
    assert error.value.hint


def test_what_is_no_drafter_is_refused_and_names_of_our_own_stay_ours(monkeypatch, module):
    group = NAMED[0]
    installed(
        monkeypatch, EntryPoint("list", "builtins:list", group), EntryPoint("suffix", "builtins:list", group)
    )
    assert registry.names().count("suffix") == 1
    module.Wrong = lambda target: 3
    installed(monkeypatch, EntryPoint("wrong", "last_time:Wrong", group))
    with pytest.raises(OptionError, match="is no Drafter: 3"):
        registry.make("wrong", ToyBackend())
