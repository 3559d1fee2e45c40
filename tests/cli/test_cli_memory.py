"""`redline memory`."""

from redline.drafters import Folder
from redline.testing import ToyTokenizer


def test_a_folder_is_listed_and_cleared_and_nothing_else_is_touched(redline, tmp_path):
    Folder(tmp_path, ToyTokenizer.letters(9)).add([1, 2, 3])
    (tmp_path / "notes.txt").write_text("mine")
    listed = redline("memory", str(tmp_path))
    assert listed.status == 0
    assert "answers-" in listed.out
    assert "bytes" in listed.out
    assert "kept" in listed.err
    assert redline("memory", str(tmp_path), "--clear").status == 0
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
    assert redline("memory", str(tmp_path)).out == ""


def test_a_folder_that_is_none_is_an_error_with_a_hint(redline, tmp_path):
    ran = redline("memory", str(tmp_path / "nowhere"))
    assert ran.status == 1
    assert "There is no folder" in ran.err
    assert "--memory" in ran.err


def test_what_was_written_is_guessed_the_next_time(redline, tmp_path):
    options = ["--model", "big", "--raw", "--draft", "auto", "--memory", str(tmp_path / "kept"), "--json"]
    first, second = (redline("generate", "abcab", *options, "--check").document for _ in range(2))
    assert first["text"] == second["text"]
    assert second["identical_to_plain"]
    assert "memory" not in first["metrics"]["sources"]
    assert second["metrics"]["sources"]["memory"]["accepted"] > 20
    refused = redline("generate", "abcab", "--model", "big", "--raw", "--draft", "ngram", *options[5:])
    assert refused.status == 1
    assert "Only suffix keeps answers" in refused.err


def test_who_guessed_is_said_where_several_did(redline):
    several = redline("generate", "abcabcabc", "--model", "big", "--raw", "--draft", "suffix+recycle")
    assert "guesses: recycle " in several.err
    assert "suffix " in several.err.split("guesses: ")[1]
    alone = redline("generate", "abcabcabc", "--model", "big", "--raw", "--draft", "ngram")
    assert "guesses: " not in alone.err
