"""`redline explain`."""

import pytest

from redline.core.metrics import DEFINITIONS
from redline.core.pace import PACES
from redline.core.verify import RULES
from redline.drafters import DRAFTERS


def test_everything_is_explained(redline):
    ran = redline("explain")
    assert ran.status == 0
    for name in (*RULES, *PACES, *DRAFTERS, *DEFINITIONS):
        assert f"\n{name}\n  " in ran.out


@pytest.mark.parametrize("topic", ["rules", "block", "acceptance"])
def test_a_topic_or_a_name(redline, topic):
    ran = redline("explain", topic)
    assert ran.status == 0
    assert topic in ran.out
    assert "Args:" not in ran.out


def test_an_unknown_topic_suggests_its_neighbours(redline):
    ran = redline("explain", "rejecton")
    assert ran.status == 1
    assert "rejection" in ran.err
