"""Which engine opens a model, what is said about it, and what is refused."""

import logging
from pathlib import Path

import pytest

from redline import backends
from redline.backends import auto
from redline.backends.native import kernels
from redline.core.errors import ModelError, NoRoom, NotInstalled, OptionError, UnknownName, UnsupportedModel
from redline.testing import ToyBackend


@pytest.fixture
def openers(monkeypatch, tmp_path):
    """Toy engines under the real names; what each was asked, and which of them are missing."""
    asked, broken = [], {}

    def opener(name):
        def open_(source, role, how):
            asked.append((name, role, dict(how)))
            if name in broken:
                raise broken[name]
            backend = ToyBackend()
            backend.name = name
            return backend

        return open_

    monkeypatch.setattr(backends, "_OPENERS", {name: opener(name) for name in backends.BACKENDS})
    (tmp_path / "m.gguf").write_bytes(b"GGUF")
    (tmp_path / "folder").mkdir()
    return asked, broken, tmp_path


@pytest.mark.parametrize(
    ("file", "role", "lacking", "engine"),
    [
        ("m.gguf", "target", "", "native"),
        ("m.gguf", "draft", "", "native"),
        ("m.gguf", "target", "They are slow.", "native"),
        ("m.gguf", "draft", "They are slow.", "llamacpp"),
        ("folder", "target", "", "native"),
        ("folder", "draft", "", "native"),
    ],
)
def test_file_role_and_kernels_choose_the_engine(openers, monkeypatch, file, role, lacking, engine):
    monkeypatch.setattr(kernels, "lacking", lambda: lacking)
    _, _, place = openers
    assert backends.open(place / file, role, threads=2, device="cpu").name == engine


@pytest.mark.parametrize(("file", "other"), [("m.gguf", "llamacpp"), ("folder", "transformers")])
def test_what_native_does_not_know_goes_elsewhere_and_that_is_said(openers, caplog, file, other):
    _, broken, place = openers
    broken["native"] = UnsupportedModel("It is a rwkv model.", "Try something else.")
    with caplog.at_level(logging.INFO, "redline"):
        assert backends.open(place / file).name == other
    assert f"{file} runs on {other}: It is a rwkv model." in caplog.text


def test_a_draft_without_kernels_and_llamacpp_says_how_to_get_it(openers, monkeypatch, caplog):
    monkeypatch.setattr(kernels, "lacking", lambda: "They are slow.")
    _, broken, place = openers
    broken["llamacpp"] = NotInstalled("llama.cpp is not installed here.", "pip install 'redline[llama]'")
    with caplog.at_level(logging.INFO, "redline"):
        assert backends.open(place / "m.gguf", "draft", device="cpu").name == "native"
    assert "pip install 'redline[llama]'" in caplog.text


def test_where_nobody_can_the_first_reason_is_told(openers):
    _, broken, place = openers
    broken["native"] = UnsupportedModel("native says no.", "A hint.")
    broken["llamacpp"] = UnsupportedModel("llama.cpp too.", "Another.")
    with pytest.raises(UnsupportedModel, match="native says no"):
        backends.open(place / "m.gguf")
    broken["llamacpp"] = NotInstalled("Not installed.", "Type this.")
    with pytest.raises(UnsupportedModel, match="native says no") as error:
        backends.open(place / "m.gguf")
    assert error.value.hint == "Not installed. Type this."


def test_a_named_backend_is_the_only_one_asked(openers):
    asked, broken, place = openers
    broken["llamacpp"] = NotInstalled("Not installed.", "Install it.")
    with pytest.raises(OptionError, match="Not installed"):
        backends.open(place / "m.gguf", backend="llamacpp", context=9)
    assert asked == [("llamacpp", "target", {"context": 9})]


def test_names_sources_and_spelling_are_checked(openers):
    _, _, place = openers
    with pytest.raises(UnknownName, match="Did you mean native"):
        backends.open(place / "m.gguf", backend="natve")
    with pytest.raises(ModelError, match="There is no"):
        backends.open(place / "none.gguf")
    (place / "notes.txt").write_text("x")
    with pytest.raises(ModelError, match=r"neither a \.gguf file nor a model folder"):
        backends.open(place / "notes.txt", backend="llamacpp")


@pytest.mark.parametrize(
    ("backend", "option", "value"),
    [
        ("native", "gpu_layers", 3),
        ("native", "trust_remote_code", True),
        ("llamacpp", "precision", "float16"),
        ("llamacpp", "device", "cuda"),
        ("transformers", "gpu_layers", 3),
    ],
)
def test_an_option_that_cannot_be_honoured_is_an_error(tmp_path, backend, option, value):
    (tmp_path / "m.gguf").write_bytes(b"GGUF")
    with pytest.raises(OptionError, match=f"{backend} has no {option}") as error:
        backends.open(tmp_path / "m.gguf", backend=backend, **{option: value})
    assert error.value.hint


def test_transformers_reads_no_files(tmp_path):
    (tmp_path / "m.gguf").write_bytes(b"GGUF")
    with pytest.raises(ModelError, match="reads folders"):
        backends.open(Path(tmp_path / "m.gguf"), backend="transformers")


def test_auto_takes_the_fastest_and_closes_the_others(openers, monkeypatch, caplog):
    _, _, place = openers
    costs, closed = {"native": 0.2, "llamacpp": 0.05}, []
    monkeypatch.setattr(auto, "predicted_s", lambda backend, widths: costs[backend.name])
    monkeypatch.setattr(ToyBackend, "close", lambda self: closed.append(self.name))
    with caplog.at_level(logging.INFO, "redline"):
        assert backends.open(place / "m.gguf", backend="auto").name == "llamacpp"
    assert closed == ["native"]
    assert "m.gguf runs on llamacpp in exact; predicted for a token with 80% of guesses kept: " in caplog.text
    assert "native in exact 200 ms, llamacpp in exact 50 ms." in caplog.text
    costs["llamacpp"] = 0.9
    assert backends.open(place / "m.gguf", backend="auto").name == "native"
    assert closed == ["native", "llamacpp"]


def test_auto_judges_by_what_the_model_will_do(openers, monkeypatch):
    _, _, place = openers
    widths = {"target": (1, 5), "alone": (1,), "draft": (1,)}
    seen = []
    monkeypatch.setattr(auto, "predicted_s", lambda backend, widths: seen.append(widths) or 1.0)
    for role, expected in widths.items():
        seen.clear()
        backends.open(place / "m.gguf", role, backend="auto")
        assert set(seen) == {expected}


def test_auto_passes_over_engines_that_cannot(openers, caplog):
    _, broken, place = openers
    broken["native"] = UnsupportedModel("Not this one.", "A hint.")
    with caplog.at_level(logging.INFO, "redline"):
        assert backends.open(place / "m.gguf", backend="auto").name == "llamacpp"
    assert "native cannot run m.gguf: Not this one." in caplog.text
    broken["llamacpp"] = UnsupportedModel("Nor this.", "A hint.")
    with pytest.raises(ModelError, match="Not this one"):
        backends.open(place / "m.gguf", backend="auto")


def test_a_prediction_takes_the_cheaper_of_plain_and_speculative_steps(monkeypatch):
    backend = ToyBackend()
    clock = [0.0]

    def extend(chunks):
        clock[0] += 1.0 if len(chunks[0].tokens) == 1 else 1.5
        return ToyBackend.extend(backend, chunks)

    monkeypatch.setattr(auto, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(backend, "extend", extend, raising=False)
    assert auto.predicted_s(backend, (1,)) == 1.0
    kept = 1 + 0.8 + 0.8**2 + 0.8**3 + 0.8**4
    assert auto.predicted_s(backend, (1, 5)) == pytest.approx(1.5 / kept)


def test_a_damaged_file_is_not_handed_on(openers):
    """llama.cpp ends the process over some of them."""
    asked, broken, place = openers
    broken["native"] = ModelError("The file is damaged.", "Get it again.")
    for backend in (None, "auto"):
        with pytest.raises(ModelError, match="damaged"):
            backends.open(place / "m.gguf", backend=backend)
    assert {name for name, *_ in asked} == {"native"}


def test_auto_leaves_nothing_open_when_measuring_fails(openers, monkeypatch):
    _, _, place = openers
    closed = []

    def fail(backend, widths):
        raise KeyboardInterrupt

    monkeypatch.setattr(auto, "predicted_s", fail)
    monkeypatch.setattr(ToyBackend, "close", lambda self: closed.append(self.name))
    with pytest.raises(KeyboardInterrupt):
        backends.open(place / "m.gguf", backend="auto")
    assert closed == ["native"]


def test_auto_goes_on_without_an_engine_that_has_no_room(openers):
    _, broken, place = openers
    broken["llamacpp"] = NoRoom("It needs 9 GB.", "Close something.")
    assert backends.open(place / "m.gguf", backend="auto").name == "native"


def test_a_prediction_fits_a_short_context():
    assert auto.predicted_s(ToyBackend(context=5), (1, 5)) > 0
    assert auto.predicted_s(ToyBackend(context=20), (1, 5)) > 0
