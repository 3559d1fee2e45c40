"""The installed command on the real model."""

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.model


def redline(*args, **options):
    command = [sys.executable, "-m", "redline", *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, **options)


@pytest.mark.parametrize("sampling", [(), ("--temperature", "0.8", "--seed", "7", "--top-p", "0.9")])
def test_any_draft_writes_the_same_tokens(smollm2_path, sampling):
    prompt = "Repeat this list: red, green, blue, red, green, blue."
    args = ("generate", "--model", "smollm2-135m", "--max-tokens", "32", *sampling, "--json", prompt)
    itself = ("smollm2-135m", "--draft-backend", "native", "--pace", "fixed")
    drafts = (("ngram",), ("none",), itself, ("smollm2-135m", "--draft-precision", "q4_0"))
    ran = [redline(*args, "--draft", *draft) for draft in drafts]
    assert [each.returncode for each in ran] == [0] * 4, ran[0].stderr
    documents = [json.loads(each.stdout.splitlines()[-1]) for each in ran]
    assert all(document["tokens"] == documents[0]["tokens"] for document in documents)
    assert documents[2]["metrics"]["acceptance"] == 1.0
    assert documents[3]["settings"]["backends"]["draft"]["dtype"] == "Q4_0"


def test_check_says_yes(smollm2_path):
    ran = redline("generate", "--check", "--max-tokens", "24", "Count from one to twenty.")
    assert ran.returncode == 0
    assert "identical to plain decoding: yes" in ran.stderr


def test_a_prompt_longer_than_the_context_is_a_sentence_and_a_hint(smollm2_path):
    ran = redline("generate", "-", input="word " * 9000)
    assert ran.returncode == 1
    assert [line.split(":")[0] for line in ran.stderr.splitlines()] == ["error", "hint"]
    assert "8192" in ran.stderr


def test_the_demo_compares_with_plain_decoding(smollm2_path):
    ran = redline("demo", "--max-tokens", "24")
    assert ran.returncode == 0, ran.stderr
    assert "identical to plain decoding: yes" in ran.stdout
    assert "speed-up" in ran.stdout
