"""The toy backend keeps the contract with every kind of rollback."""

import pytest

from redline.testing import BackendContract, ToyBackend, backend_machine


class TestToy(BackendContract):
    @pytest.fixture(params=["truncate", "snapshot", "none", "chains only", "short memory"])
    def backend(self, request):
        if request.param == "chains only":
            return ToyBackend(trees=False, context=64)
        if request.param == "short memory":
            return ToyBackend(order=2, context=64)
        return ToyBackend(rollback=request.param, trees=request.param == "truncate", context=64)


TestTruncate = backend_machine(lambda: ToyBackend(context=10_000))
TestSnapshot = backend_machine(lambda: ToyBackend(rollback="snapshot", context=10_000))
TestNone = backend_machine(lambda: ToyBackend(rollback="none", trees=False, context=10_000))
