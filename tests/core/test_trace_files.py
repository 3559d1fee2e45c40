"""Traces on disk: what was written comes back, and nothing else is taken for one."""

import errno
import json
from pathlib import Path

import pytest

from redline.core.errors import RedlineError
from redline.core.types import Step
from redline.engine.trace import FORMAT, read, write

STEPS = [
    Step(key=0, position=3, prefilled=3, target_s=0.25),
    Step(
        key=0,
        position=3,
        emitted=(4, 5, 6),
        texts=("A", "", "é漢\n\r\t\u2028\u2029\x85\x0b\x1c\x00🎉�"),
        proposed=(4, 5, 9, 8),
        parents=(-1, 0, 1, -1),
        path=(0, 1),
        sources=("n-gram",) * 4,
        spent={"n-gram": 1e-9},
        draft_s=1e-9,
        verify_s=0.1 + 0.2,
        rewind_s=5e-324,
        other_s=1e300,
        finish="stop",
    ),
]
ABOUT = {"model": "toy", "prompt": [1, 2, 3], "sampling": {"temperature": 0.7, "note": "\u2028"}}


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "trace.jsonl"
    write(path, STEPS, ABOUT)
    return path


def test_a_trace_comes_back_bit_for_bit(trace):
    assert read(trace) == (ABOUT, STEPS)
    assert list(trace.parent.iterdir()) == [trace]


def test_a_trace_of_nothing(tmp_path):
    write(tmp_path / "t", [], {})
    assert read(tmp_path / "t") == ({}, [])


def test_a_trace_is_one_json_document_a_line(trace):
    lines = trace.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    assert len(lines) == 1 + len(STEPS)
    assert json.loads(lines[0])["format"] == FORMAT


def damage(trace, change):
    lines = trace.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    trace.write_text("\n".join(change(lines)), encoding="utf-8")


def field(line, name, value):
    return json.dumps(json.loads(line) | {name: value})


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (lambda lines: [], 1),
        (lambda lines: ["hello"], 1),
        (lambda lines: ["[1, 2]"], 1),
        (lambda lines: ["3"], 1),
        (lambda lines: ['{"a": 1}'], 1),
        (lambda lines: [field(lines[0], "format", "redline-trace-0"), *lines[1:]], 1),
        (lambda lines: [lines[0][:20]], 1),
        (lambda lines: [lines[0], lines[1][:30]], 2),
        (lambda lines: [lines[0], "null", lines[2]], 2),
        (lambda lines: [*lines[:2], lines[2][:-1]], 3),
        (lambda lines: [*lines[:2], field(lines[2], "colour", "red")], 3),
        (lambda lines: [*lines, "", ""], 4),
        (lambda lines: [*lines, "{}"], 4),
    ],
)
def test_a_damaged_trace_is_refused_with_the_line(trace, change, line):
    damage(trace, change)
    with pytest.raises(RedlineError, match=f"is not a trace from line {line} on") as caught:
        read(trace)
    assert "damaged" in caught.value.hint


def test_a_missing_line_break_at_the_end_is_no_damage(trace):
    damage(trace, lambda lines: lines)
    assert read(trace) == (ABOUT, STEPS)


def test_a_file_that_cannot_be_read_is_refused_in_a_sentence(tmp_path):
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    for name in ("missing", "binary"):
        with pytest.raises(RedlineError, match="Cannot read the trace"):
            read(tmp_path / name)


def test_a_full_disk_leaves_the_old_trace_and_no_part(trace, monkeypatch):
    real = Path.open

    def full(self, mode="r", *args, **kwargs):
        file = real(self, mode, *args, **kwargs)
        if "w" in mode:
            file.write("half a li")
            file.flush()
            file.close()
            raise OSError(errno.ENOSPC, "No space left on device")
        return file

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(RedlineError, match="No space left"):
        write(trace, STEPS[:1], {"model": "another"})
    monkeypatch.undo()
    assert read(trace) == (ABOUT, STEPS)
    assert list(trace.parent.iterdir()) == [trace]


def test_a_place_that_is_no_folder_is_refused_in_a_sentence(trace):
    with pytest.raises(RedlineError, match="Cannot write"):
        write(trace / "below", STEPS, ABOUT)
    with pytest.raises(RedlineError, match="Cannot write"):
        write(trace.parent / "nowhere" / "t", STEPS, ABOUT)


def test_what_is_not_json_leaves_the_old_trace(trace):
    with pytest.raises(TypeError):
        write(trace, STEPS, {"model": object()})
    assert read(trace) == (ABOUT, STEPS)
    assert list(trace.parent.iterdir()) == [trace]
