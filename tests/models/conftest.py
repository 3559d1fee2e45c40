"""A package index in a folder, and a cache of its own for each test."""

import hashlib
import os
import zipfile
from pathlib import Path

import pytest

from redline.models import Model, Part
from redline.models.catalogue import CATALOGUE


class Index:
    """A folder of tiny wheels that the real pip finds, and the catalogue entries that need them."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self._monkeypatch = monkeypatch

    def wheel(self, package: str, files: dict[str, bytes]) -> Path:
        name, version = package.replace("-", "_").split("==")
        info = f"{name}-{version}.dist-info"
        path = self.root / f"{name}-{version}-py3-none-any.whl"
        with zipfile.ZipFile(path, "w") as archive:
            for member, data in files.items():
                archive.writestr(member, data)
            # A dependency that no index has: it must not be asked for.
            lines = [
                "Metadata-Version: 2.1",
                f"Name: {name}",
                f"Version: {version}",
                "Requires-Dist: nowhere",
            ]
            archive.writestr(f"{info}/METADATA", "\n".join(lines) + "\n")
            archive.writestr(
                f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
            )
            archive.writestr(f"{info}/RECORD", "")
        return path

    def add(self, name: str, pieces: list[bytes], **changes: object) -> Model:
        """Put a model's pieces on the index, one package each, and its entry into the catalogue."""
        parts = [Part(f"{name}-part{i}==1.0", f"data/{i}.bin") for i, _ in enumerate(pieces, 1)]
        for part, piece in zip(parts, pieces, strict=True):
            self.wheel(part.package, {part.member: piece})
        data = b"".join(pieces)
        facts = {"size_bytes": len(data), "sha256": hashlib.sha256(data).hexdigest(), "licence": "MIT"}
        model = Model(
            **{"name": name, "about": "tiny", "kind": "base", "parts": tuple(parts)} | facts | changes
        )
        self._monkeypatch.setitem(CATALOGUE, name, model)
        return model


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("REDLINE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "models"


@pytest.fixture
def index(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Index:
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    root = tmp_path / "index"
    root.mkdir()
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(root))
    return Index(root, monkeypatch)
