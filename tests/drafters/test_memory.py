"""Answers in a folder: shared, bounded, and never lost for what somebody else did to the file."""

import logging
import multiprocessing
import stat

import pytest
from filelock import FileLock

from redline.core.errors import RedlineError
from redline.drafters import Corpus, Folder, Suffix, memory
from redline.drafters.memory import MAGIC, files, vocabulary_id
from redline.testing import ToyTokenizer

TOKENIZER = ToyTokenizer.letters(64)
START = len(MAGIC) + 8


def answer(n, size=20):
    return [(n * 7 + i * i) % 64 for i in range(size)]


def folder(path, **options):
    return Folder(path, TOKENIZER, **options)


def test_what_one_adds_the_others_find_once(tmp_path):
    one, two = folder(tmp_path), folder(tmp_path)
    one.add(answer(1))
    assert two.news() == [answer(1)]
    assert two.news() == one.news() == []
    two.add(answer(2))
    one.add(answer(3))
    assert one.news() == [answer(2)]
    assert two.news() == [answer(3)]
    assert folder(tmp_path).news() == [answer(1), answer(2), answer(3)]


def test_the_same_answer_counts_once(tmp_path):
    one = folder(tmp_path)
    for _ in range(3):
        one.add(answer(1))
    assert folder(tmp_path).news() == [answer(1)]


def test_another_vocabulary_has_another_file(tmp_path):
    folder(tmp_path).add(answer(1))
    other = Folder(tmp_path, ToyTokenizer.letters(65))
    assert other.news() == []
    assert vocabulary_id(TOKENIZER) != vocabulary_id(ToyTokenizer.letters(65))
    assert vocabulary_id(TOKENIZER) == vocabulary_id(ToyTokenizer.letters(64))


def test_everything_is_in_the_folder_and_for_its_owner_only(tmp_path):
    path = tmp_path / "deep" / "memory"
    one = folder(path)
    one.add(answer(1))
    assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert [child.name for child in tmp_path.iterdir()] == ["deep"]
    (path / "mine.txt").write_text("stays")
    assert {file.name for file in path.iterdir()} - {"mine.txt"} == {file.name for file in files(path)}
    assert all(stat.S_IMODE(file.stat().st_mode) == 0o600 for file in files(path))


def saved(path):
    return next(file for file in files(path) if file.suffix == ".tokens")


@pytest.mark.parametrize("cut", range(1, 110, 4))
def test_what_was_cut_short_costs_its_own_record_only(tmp_path, cut):
    one = folder(tmp_path)
    for n in range(3):
        one.add(answer(n))
    data = saved(tmp_path).read_bytes()
    saved(tmp_path).write_bytes(data[:-cut])
    again = folder(tmp_path)
    assert again.news() == [answer(0), answer(1)][: 2 if cut <= 92 else 1]
    again.add(answer(9))
    assert folder(tmp_path).news()[-1] == answer(9)


@pytest.mark.parametrize("at", [0, 3, START, START + 5, START + 9, START + 40])
def test_what_was_changed_is_not_believed(tmp_path, at, caplog):
    one = folder(tmp_path)
    for n in range(3):
        one.add(answer(n))
    data = bytearray(saved(tmp_path).read_bytes())
    data[at] ^= 0x55
    saved(tmp_path).write_bytes(data)
    again = folder(tmp_path)
    left = [] if at < len(MAGIC) else [answer(1), answer(2)]
    assert again.news() == left
    again.add(answer(9))
    assert again.news() == []
    assert folder(tmp_path).news() == [*left, answer(9)]
    assert ("is damaged from its first byte on" in caplog.text) == (at < len(MAGIC))


def test_ids_that_the_target_does_not_have_are_passed_over(tmp_path):
    one = folder(tmp_path)
    one.add([*answer(1), 64])
    one.add(answer(2))
    assert folder(tmp_path).news() == [answer(2)]


def test_a_long_file_is_shortened_to_what_was_of_use_last(tmp_path):
    one = folder(tmp_path, limit_bytes=3000)
    one.add(answer(0))
    for n in range(1, 200):
        one.add([n % 64, (n * n) % 64, *answer(n)])
        one.use(answer(0))
        assert saved(tmp_path).stat().st_size <= 3000 + 200
    found = folder(tmp_path).news()
    assert answer(0) in found
    assert 5 <= len(found) < 40
    assert len(one.news()) == 0
    assert not [file for file in files(tmp_path) if file.suffix == ".partial"]


def test_another_process_that_shortened_the_file_is_no_trouble(tmp_path):
    one, two = folder(tmp_path, limit_bytes=2000), folder(tmp_path, limit_bytes=2000)
    for n in range(100):
        (one if n % 2 else two).add([n % 64, n // 64, *answer(n)])
        seen = (two if n % 2 else one).news()
        assert [n % 64, n // 64, *answer(n)] in seen


def test_another_file_in_the_same_place_is_read_from_its_beginning(tmp_path):
    """A file system may give the new file the number of the old one."""
    one = folder(tmp_path)
    for n in range(5):
        one.add(answer(n, 10 + n))
    assert len(one.news()) == 0
    other = folder(tmp_path / "other")
    for n in range(10, 17):
        other.add(answer(n, 17))
    saved(tmp_path).write_bytes(saved(tmp_path / "other").read_bytes())  # the same inode
    one.add(answer(20))
    expected = [answer(n, 17) for n in range(10, 17)]
    assert one.news() == expected
    assert folder(tmp_path).news() == [*expected, answer(20)]


def test_a_link_is_not_followed(tmp_path):
    folder(tmp_path)
    place = saved(tmp_path)
    place.unlink()
    (tmp_path / "mine.txt").write_text("hi")
    place.symlink_to(tmp_path / "mine.txt")
    with pytest.raises(RedlineError, match="cannot keep answers"):
        folder(tmp_path)
    assert (tmp_path / "mine.txt").read_text() == "hi"


def test_a_folder_that_another_process_has_is_no_error(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(memory, "PATIENCE_S", 0.01)
    folder(tmp_path).add(answer(1))
    with FileLock(f"{saved(tmp_path)}.lock"):
        one = folder(tmp_path)
        assert one.news() == []
        one.add(answer(2))
    assert "another process has them" in caplog.text
    assert one.news() == [answer(1)]


def test_what_others_keep_in_the_folder_is_not_ours_and_what_a_crash_left_is(tmp_path):
    folder(tmp_path)
    (tmp_path / "answers-notes.tokens").write_text("mine")
    (tmp_path / "answers-2024.tokens.txt").write_text("mine")
    left = saved(tmp_path).with_name(saved(tmp_path).name + memory.PARTIAL)
    left.write_text("half")
    assert left in files(tmp_path)
    assert {file.name.split(".")[0] for file in files(tmp_path)} == {saved(tmp_path).stem}


def write_many(path, start):
    one = folder(path)
    for n in range(start, start + 40):
        one.add([n % 64, n // 64, *answer(n)])


def test_two_processes_lose_nothing(tmp_path):
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=write_many, args=(tmp_path, 40 * i)) for i in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    assert len(folder(tmp_path).news()) == 120


def test_a_full_disk_costs_the_memory_and_no_text(tmp_path, monkeypatch, caplog):
    one = folder(tmp_path)
    one.add(answer(1))

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(memory, "_open", full)
    one.add(answer(2))
    assert one.news() == []
    assert "No answers can be kept in" in caplog.text
    assert "No space left on device" in caplog.text
    monkeypatch.undo()
    assert folder(tmp_path).news() == [answer(1)]


def test_files_that_somebody_removed_are_made_again(tmp_path):
    path = tmp_path / "memory"
    one = folder(path)
    one.add(answer(1))
    for file in files(path):
        file.unlink()
    one.add(answer(2))
    assert folder(path).news() == [answer(2)]


def test_a_process_that_does_not_let_go_is_not_waited_for(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(memory, "PATIENCE_S", 0.05)
    one, two = folder(tmp_path), folder(tmp_path)
    with one._lock:
        two.add(answer(1))
    assert "No answers can be kept" in caplog.text
    two.add(answer(2))
    assert one.news() == [answer(2)]


def test_a_folder_that_cannot_be_is_an_error_with_a_hint(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RedlineError, match="cannot keep answers") as error:
        folder(tmp_path / "file")
    assert "--memory" in error.value.hint


def test_answers_of_yesterday_are_guessed_today(tmp_path, caplog):
    caplog.set_level(logging.WARNING)
    Corpus(folder=folder(tmp_path)).add(answer(1))
    corpus = Corpus(folder=folder(tmp_path))
    drafter = Suffix(corpus)
    drafter.start(0, answer(1)[:5])
    automaton = corpus.automata()[0]
    assert automaton.text.tolist()[:20] == answer(1)
    corpus.use(automaton, 3)
    corpus.use(automaton, 4)
    assert caplog.text == ""
