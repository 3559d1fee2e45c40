"""Fixtures of the tests of backends."""

import pytest
import torch
from tiny_models import make_reference, save_folder


@pytest.fixture(autouse=True)
def one_thread():
    """Thousands of tiny products: on a busy machine, threads would mostly wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """Shape's name → folder with a tiny model of that shape."""
    made = {}

    def make(shape):
        if shape not in made:
            made[shape] = save_folder(make_reference(shape), tmp_path_factory.mktemp("tiny") / "model")
        return made[shape]

    return make
