"""`redline demo` over a toy model of bytes."""

from redline import models
from redline.cli import demo


def test_it_redlines_measures_and_compares(redline):
    ran = redline("demo", "--model", "bytes", "--max-tokens", "40")
    assert ran.status == 0
    for title in demo.SHOWN.values():
        assert ran.out.count(title) == 2, "once above its text, once in the table"
    assert "speed-up" in ran.out
    assert ran.out.rstrip().endswith("identical to plain decoding: yes")
    assert "time: draft" in ran.out


def test_a_missing_model_is_pulled_and_its_size_said(redline, monkeypatch):
    pulled = []
    monkeypatch.setattr(demo, "is_whole", lambda model: False)
    monkeypatch.setattr(demo, "pull_one", pulled.append)
    known = models.known()
    monkeypatch.setattr(
        models,
        "known",
        lambda: {"bytes": known["qwen2.5-coder-1.5b"], "bytes-2": known["qwen2.5-coder-0.5b"]},
    )
    ran = redline("demo", "--model", "bytes", "--draft", "bytes-2", "--max-tokens", "8")
    assert ran.status == 0
    assert pulled == ["qwen2.5-coder-1.5b", "qwen2.5-coder-0.5b"]
    assert "Not here yet: qwen2.5-coder-1.5b and qwen2.5-coder-0.5b; getting 1609 MB now, once." in ran.err


def test_a_difference_is_said_and_is_a_failure(redline, monkeypatch):
    monkeypatch.setattr(demo, "write", lambda engine, *args, **options: demo_result(engine, *args, **options))
    real = demo.Engine

    def demo_result(engine, prompt, limits=None, seed=None):
        from redline.core.sampling import Sampling
        from redline.engine import generate

        return generate(real(engine.target), prompt, Sampling(bias={65: 50.0}), limits, seed)

    ran = redline("demo", "--model", "bytes", "--max-tokens", "8")
    assert ran.status == 1
    assert "not identical: a bug: at token 0" in ran.out
    assert ran.out.rstrip().endswith("identical to plain decoding: no")
