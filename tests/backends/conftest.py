"""Fixtures of the tests of backends."""

import pytest
import torch
from tiny_models import make_reference, save_folder, save_gguf

from redline import backends
from redline.backends.native import kernels

NO_KERNELS = pytest.mark.skipif(kernels.find() is None, reason="the kernels were not built: no C compiler")


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


@pytest.fixture(params=[pytest.param("file", marks=NO_KERNELS), "float32"])
def precision(request):
    """The kernels on a file's own numbers, and torch."""
    return request.param


@pytest.fixture(scope="session")
def opened_file(tmp_path_factory):
    """Shape's name and precision → a tiny model of that shape, from a GGUF file."""
    place, made = tmp_path_factory.mktemp("files"), {}

    def get(shape, precision="float32"):
        if (shape, precision) not in made:
            file = save_gguf(make_reference(shape), place / f"{shape}.gguf")
            made[shape, precision] = backends.open(file, device="cpu", precision=precision, context=192)
        return made[shape, precision]

    return get
