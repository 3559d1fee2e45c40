"""Errors say what is wrong and the way out."""

import pytest

from redline.core import errors
from redline.core.errors import OptionError, RedlineError, UnknownName, unknown


def test_a_message_and_its_hint():
    error = RedlineError("The file is missing.", "Pull it first.")
    assert (error.message, error.hint) == ("The file is missing.", "Pull it first.")
    assert str(error) == "The file is missing.\nPull it first."
    assert str(RedlineError("Alone.")) == "Alone."


def test_every_error_is_a_redline_error_and_a_builtin_one():
    kinds = [kind for name, kind in vars(errors).items() if name.endswith(("Error", "UnknownName"))]
    kinds.remove(RedlineError)
    for kind in kinds:
        assert issubclass(kind, RedlineError)
        assert issubclass(kind, (ValueError, LookupError, RuntimeError))
    assert len(kinds) >= 6
    with pytest.raises(ValueError, match="no"):
        raise OptionError("no")


def test_an_unknown_name_suggests_its_neighbours():
    error = unknown("rule", "machting", ["matching", "greedy", "block"])
    assert isinstance(error, UnknownName)
    assert str(error) == "There is no rule named 'machting'.\nDid you mean matching?"


def test_a_name_without_neighbours_gets_the_whole_list():
    assert unknown("rule", "xyz", ["matching", "block"]).hint == "Known: block, matching."
