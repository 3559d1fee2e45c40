"""`redline generate` over toy models."""

import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace

import pytest

from redline import cli
from redline.cli import generate as command
from redline.drafters import Ngram
from redline.engine import load, trace

PROMPT = "abcabcabc"


def test_the_last_line_is_one_document(redline):
    ran = redline("generate", "--json", "--max-tokens", "20", PROMPT)
    assert ran.status == 0
    document = ran.document
    assert set(document) == {"text", "tokens", "finish", "seed", "metrics", "draft_fault", "settings"}
    assert document["draft_fault"] is None
    assert {
        "tokens",
        "steps",
        "tokens_per_step",
        "acceptance",
        "acceptance_at",
        "tokens_per_s",
        "share",
    } <= set(document["metrics"])
    assert len(document["tokens"]) == document["metrics"]["tokens"] == 20
    assert (document["finish"], document["settings"]["max_tokens"]) == ("length", 20)


MODEL = ("--draft", "another-model", "--pace", "fixed")  # a toy is never sure enough for confidence


@pytest.mark.parametrize("sampling", [(), ("--temperature", "0.8", "--seed", "7", "--top-p", "0.9")])
@pytest.mark.parametrize("draft", [("--draft", "ngram"), MODEL])
def test_any_draft_writes_what_none_writes(redline, draft, sampling):
    ran = [redline("generate", "--json", *way, *sampling, PROMPT) for way in (draft, ("--draft", "none"))]
    assert ran[0].document["tokens"] == ran[1].document["tokens"]
    assert ran[0].document["metrics"]["proposed"] > 0
    assert ran[1].document["metrics"]["acceptance"] is None


def test_a_reported_seed_repeats_the_run(redline):
    first = redline("generate", "--json", "--temperature", "1", PROMPT).document
    again = redline("generate", "--json", "--temperature", "1", "--seed", str(first["seed"]), PROMPT).document
    other = redline("generate", "--json", "--temperature", "1", PROMPT).document
    assert first["tokens"] == again["tokens"] != other["tokens"]


def test_text_goes_to_stdout_and_the_rest_to_stderr(redline):
    ran = redline("generate", "--max-tokens", "9", PROMPT)
    assert ran.out == redline("generate", "--json", "--max-tokens", "9", PROMPT).document["text"] + "\n"
    assert "9 tokens in" in ran.err
    assert "seed" in ran.err


def test_marks_show_the_same_text_and_what_was_struck_out(redline):
    plain = redline("generate", "--marks", "--draft", "none", "--max-tokens", "30", PROMPT).out
    marked = redline("generate", "--marks", *MODEL, "--max-tokens", "30", PROMPT).out
    assert plain.startswith("kept guess  [-refused guess-]  {+correction+}  bonus  plain\n")
    body = marked.split("\n", 1)[1]
    assert "[-" in body
    assert re.sub(r"\[-.-\]|[{}+]", "", body) == plain.split("\n", 1)[1]


def test_check_decodes_plainly_too(redline):
    ran = redline("generate", "--check", PROMPT)
    assert (ran.status, "identical to plain decoding: yes" in ran.err) == (0, True)
    assert redline("generate", "--check", "--json", PROMPT).document["identical_to_plain"] is True


def test_check_fails_where_the_text_differs(redline, monkeypatch):
    monkeypatch.setattr(command, "_same_as_plain", lambda *_: False)
    ran = redline("generate", "--check", PROMPT)
    assert (ran.status, "identical to plain decoding: no" in ran.err) == (1, True)


def test_a_lossy_rule_says_so(redline):
    ran = redline("generate", "--json", "--rule", "typical", PROMPT)
    assert "lossy" in ran.err
    assert ran.document["settings"]["exact"] is ran.document["settings"]["bit_exact"] is False


@pytest.mark.parametrize("rule", ["rejection", "tree", "block", "typical"])
def test_check_refuses_to_compare_what_need_not_be_the_same(redline, rule):
    ran = redline("generate", "--check", "--rule", rule, "--temperature", "1", PROMPT)
    assert (ran.status, "only the law" in ran.err, "matching" in ran.err) == (1, True, True)
    if rule != "typical":
        assert redline("generate", "--check", "--rule", rule, PROMPT).status == 0


def test_a_backend_whose_rows_depend_on_their_pass_says_which_passes(redline, monkeypatch):
    real = load.backends.open

    def loose(path, *role, **options):
        backend = real(path)
        backend.traits = replace(
            backend.traits, row_invariant=False, exact_widths=(1, 2), dtype="bfloat16", device="cuda"
        )
        return backend

    monkeypatch.setattr(load.backends, "open", loose)
    ran = redline("generate", "--json", PROMPT)
    settings = ran.document["settings"]
    assert (settings["exact"], settings["bit_exact"]) == (True, False)
    assert settings["inexact_widths"]
    assert not {1, 2} & set(settings["inexact_widths"])
    assert f"passes of {', '.join(map(str, settings['inexact_widths']))} rows are not" in ran.err
    assert settings["backends"]["target"]["dtype"] == "bfloat16"
    strict = redline("generate", "--json", "--strict", PROMPT)
    assert (strict.document["settings"]["bit_exact"], strict.document["settings"]["strict"]) == (True, True)
    assert "rows are not" not in strict.err


def test_stdin_chat_and_raw(redline):
    typed = redline("generate", "--json", PROMPT).document
    piped = redline("generate", "--json", "-", stdin=PROMPT.encode()).document
    raw = redline("generate", "--json", "--raw", PROMPT).document
    assert piped["tokens"] == typed["tokens"] != raw["tokens"]
    assert typed["settings"]["prompt_tokens"] == raw["settings"]["prompt_tokens"] + 1


def test_stop_strings_end_the_text(redline):
    text = redline("generate", "--json", PROMPT).document["text"]
    stopped = redline("generate", "--json", "--stop", text[10:12], "--stop", "ZZ", PROMPT).document
    assert (stopped["text"], stopped["finish"]) == (text[: text.index(text[10:12])], "stop")


def test_a_drafter_that_failed_is_said_in_json_too(redline, monkeypatch):
    def fail(*_):
        raise ZeroDivisionError("the drafter divides")

    plain = redline("generate", "--json", "--draft", "none", PROMPT).document
    monkeypatch.setattr(Ngram, "propose", fail)
    document = redline("generate", "--json", "--draft", "ngram", PROMPT).document
    assert document["text"] == plain["text"]
    assert document["draft_fault"] == "ZeroDivisionError: the drafter divides"


def test_a_trace_can_be_read_back(redline, tmp_path):
    file = tmp_path / "trace.jsonl"
    document = redline("generate", "--json", "--trace", str(file), PROMPT).document
    about, steps = trace.read(file)
    assert [token for step in steps for token in step.emitted] == document["tokens"]
    assert (about["seed"], about["draft"]) == (document["seed"], "forced+suffix")


def test_every_option_arrives(redline):
    args = {
        "--rule": "block", "--pace": "confidence", "--depth": "3", "--nodes": "3", "--max-tokens": "7",
        "--temperature": "0.5", "--top-k": "9", "--top-p": "0.8", "--min-p": "0.01",
        "--repetition-penalty": "1.1",
        "--presence-penalty": "0.2", "--frequency-penalty": "0.3", "--penalty-window": "64",
        "--draft-temperature": "0.7", "--stop": "Q",
    }  # fmt: skip
    flat = [word for pair in args.items() for word in pair]
    ran = redline("generate", "--json", "--draft", "another-model", *flat, PROMPT)
    settings = ran.document["settings"]
    for option, value in args.items():
        name = option[2:].replace("-", "_")
        assert str(settings[name]) == (value if name != "stop" else "['Q']"), name
    assert len(ran.document["metrics"]["acceptance_at"]) <= 3


@pytest.mark.parametrize(
    ("args", "error", "hint"),
    [
        (("",), "The prompt is empty.", "Give a text"),
        (("--max-tokens", "0", "x"), "--max-tokens is 0", "at least 1"),
        (("--rule", "blok", "x"), "no rule named 'blok'", "block"),
        (("--pace", "fixd", "x"), "no pace named 'fixd'", "fixed"),
        (("--depth", "-1", "x"), "depth is -1", "0 or more"),
        (("--temperature", "-1", "x"), "temperature is -1.0", "0 or more"),
        (("--top-p", "0", "x"), "top_p is 0.0", "above 0"),
        (("--rule", "greedy", "--temperature", "1", "x"), "cannot honour temperature", "matching"),
        (("--draft-temperature", "1", "x"), "no temperature", "draft with a model"),
        (("--stop", "", "x"), "stop string is empty", "Leave it out"),
        (("a" * 600,), "601 tokens", "Shorten"),
        (("--trace", "/tmp", "x"), "/tmp is a folder", "--trace"),
        (("--trace", "/nowhere/t.jsonl", "x"), "/nowhere does not exist", "--trace"),
    ],
)
def test_mistakes_are_a_sentence_and_a_hint(redline, args, error, hint):
    ran = redline("generate", *args)
    assert ran.status == 1
    said = dict(line.split(": ", 1) for line in ran.err.splitlines())
    assert set(said) == {"error", "hint"}
    assert error in said["error"]
    assert hint in said["hint"]


def test_an_unknown_option_is_refused(redline):
    ran = redline("generate", "--dept", "3", "x")
    assert ran.status == 2
    assert "--dept" in ran.err


def test_a_prompt_that_is_no_text(redline):
    ran = redline("generate", "-", stdin=b"\xff\xfe")
    assert (ran.status, "not UTF-8" in ran.err) == (1, True)


def test_a_trace_that_cannot_be_written_loses_no_text(redline, tmp_path, monkeypatch):
    monkeypatch.setattr("pathlib.Path.write_text", fails)
    ran = redline("generate", "--json", "--trace", str(tmp_path / "t.jsonl"), PROMPT)
    assert (ran.status, "Cannot write" in ran.err) == (1, True)
    assert ran.document["tokens"]
    assert list(tmp_path.iterdir()) == []


def fails(*_, **__):
    raise OSError(28, "No space left on device")


def test_ctrl_c_keeps_what_was_written(redline, tmp_path, monkeypatch):
    real = load.backends.open

    def interrupted(path, role="target", **options):
        backend, passes = real(path), []
        extend = backend.extend

        def stop_later(chunks):
            passes.append(1)
            if len(passes) == 6:
                raise KeyboardInterrupt
            return extend(chunks)

        backend.extend = stop_later
        return backend

    monkeypatch.setattr(load.backends, "open", interrupted)
    file = tmp_path / "t.jsonl"
    ran = redline("generate", "--json", "--check", "--draft", "none", "--trace", str(file), PROMPT)
    assert ran.status == 130
    assert (ran.document["finish"], len(ran.document["tokens"])) == ("cancelled", 4)
    assert "identical_to_plain" not in ran.document
    assert len(trace.read(file)[1]) == 6


def test_a_prompt_far_beyond_the_context_is_refused_at_once(redline):
    ran = redline("generate", "-", stdin=b"a" * 100_000)
    assert (ran.status, "100000 characters" in ran.err, "Shorten" in ran.err) == (1, True, True)


def test_an_output_that_is_full_is_a_sentence():
    with open("/dev/full", "w") as full:
        ran = subprocess.run(
            [sys.executable, "-m", "redline", "explain"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert ran.returncode == 1
    assert ran.stderr.splitlines() == ["error: No space left on device: the output."]


@pytest.mark.parametrize("closed", ["<&-", ">&-"])
def test_closed_streams_are_no_traceback(closed):
    ran = subprocess.run(
        ["sh", "-c", f"{sys.executable} -m redline explain block {closed}"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "Traceback" not in ran.stderr


def test_a_time_limit_is_as_ctrl_c(monkeypatch):
    """What ends a run from outside mostly sends SIGTERM; what was written by then is kept."""
    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(cli, "app", lambda: os.kill(os.getpid(), signal.SIGTERM))
    try:
        with pytest.raises(KeyboardInterrupt):
            cli.main()
    finally:
        signal.signal(signal.SIGTERM, before)


# --- constraints ------------------------------------------------------------------------------------

SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 5}, "ok": {"type": "boolean"}},
    "required": ["name", "ok"],
    "additionalProperties": False,
}


@pytest.fixture
def schema_file(tmp_path):
    file = tmp_path / "schema.json"
    file.write_text(json.dumps(SCHEMA), encoding="utf-8")
    return str(file)


@pytest.mark.parametrize("draft", ["none", "ngram", "bytes-draft"])
@pytest.mark.parametrize("sampling", [(), ("--temperature", "1", "--seed", "3")])
def test_a_schema_binds_any_draft(redline, schema_file, draft, sampling):
    args = ("--model", "bytes", "--schema", schema_file, "--draft", draft, "--pace", "fixed", *sampling)
    document = redline("generate", "--json", "--check", *args, PROMPT).document
    assert json.loads(document["text"]).keys() == {"name", "ok"}
    assert (document["finish"], document["identical_to_plain"]) == ("stop", True)
    assert (document["settings"]["schema"], document["settings"]["regex"]) == (schema_file, None)


def test_an_expression_binds_too(redline):
    ran = redline("generate", "--json", "--model", "bytes", "--regex", "(ab){3}c", PROMPT)
    assert (ran.document["text"], ran.document["settings"]["regex"]) == ("abababc", "(ab){3}c")
    free = redline("generate", "--json", "--model", "bytes", PROMPT).document["settings"]
    assert free["schema"] is free["regex"] is None


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (None, "Cannot read the schema"),
        ("{", "The schema is not JSON"),
        (b"\xff", "not UTF-8"),
        ('{"type": "strin"}', "Invalid type: strin"),
        ('{"not": {}}', "Unimplemented keys"),
    ],
)
def test_a_schema_that_is_none_is_a_sentence_and_a_hint(redline, tmp_path, text, error):
    file = tmp_path / "schema.json"
    if text is not None:
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
    ran = redline("generate", "--model", "bytes", "--schema", str(file), PROMPT)
    said = dict(line.split(": ", 1) for line in ran.err.splitlines())
    assert (ran.status, set(said)) == (1, {"error", "hint"})
    assert error in said["error"]


@pytest.mark.parametrize(
    ("args", "error"),
    [
        (("--model", "bytes", "--regex", "("), "unclosed group"),
        (("--model", "bytes", "--regex", "a", "--schema", "s"), "both"),
        (("--model", "letters", "--regex", "a"), "no token that ends an answer"),
    ],
)
def test_a_constraint_that_cannot_be_is_a_sentence_and_a_hint(redline, args, error):
    ran = redline("generate", *args, PROMPT)
    said = dict(line.split(": ", 1) for line in ran.err.splitlines())
    assert (ran.status, set(said)) == (1, {"error", "hint"})
    assert error in said["error"]
