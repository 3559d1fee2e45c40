"""Fixtures that several folders of tests share."""

from pathlib import Path

import pytest

from redline import models
from redline.core.errors import ModelError


@pytest.fixture(scope="session")
def smollm2_path() -> Path:
    """The real smollm2-135m; `make test` pulls it first."""
    try:
        return models.find("smollm2-135m")
    except ModelError as error:
        pytest.fail(f"{error}")


@pytest.fixture(scope="session")
def smollm2(smollm2_path):
    """The real model, loaded once for all tests."""
    from redline import backends

    backend = backends.open(smollm2_path)
    yield backend
    backend.close()


@pytest.fixture(scope="session")
def smollm2_in_floats(smollm2_path):
    """The same with float32 weights, computed by torch."""
    from redline import backends

    backend = backends.open(smollm2_path, device="cpu", precision="float32")
    yield backend
    backend.close()
