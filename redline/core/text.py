"""From token bytes to text, piece by piece: a pure state machine that never shows half a character."""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import Sequence

from redline.core.errors import OptionError


class TextStream:
    """Turns the bytes of one token after another into text that will not change any more.

    Bytes of an unfinished character are held back until it is whole, and text that may be the beginning
    of a stop string until it is decided. What comes out, joined, is the decoded text up to the stop
    string that is complete first (the longest of those that end together), however the bytes were cut.

    Args:
        stops: Texts that end the output; they are not part of it.

    Raises:
        OptionError: A stop string is empty.
    """

    def __init__(self, stops: Sequence[str] = ()) -> None:
        if "" in stops:
            raise OptionError("A stop string is empty.", "Leave it out, or name the text to stop at.")
        self._stops = tuple(stops)
        self._decoder = getincrementaldecoder("utf-8")(errors="replace")
        self._held = ""
        self.stopped = False

    def push(self, piece: bytes) -> str:
        """The text that became certain with these bytes; nothing more once a stop string was met."""
        return self._release(self._decoder.decode(piece))

    def flush(self) -> str:
        """Whatever was still held back, at the end of the text."""
        text = self._release(self._decoder.decode(b"", final=True))
        rest, self._held = self._held, ""
        return text if self.stopped else text + rest

    def _release(self, text: str) -> str:
        if self.stopped:
            return ""
        text = self._held + text
        found = [(at + len(stop), at) for stop in self._stops if (at := text.find(stop)) >= 0]
        if found:
            self.stopped, self._held = True, ""
            return text[: min(found)[1]]
        held = max((self._overlap(text, stop) for stop in self._stops), default=0)
        self._held = text[len(text) - held :]
        return text[: len(text) - held]

    @staticmethod
    def _overlap(text: str, stop: str) -> int:
        """How many last characters of `text` are the first ones of `stop`."""
        return next((n for n in range(min(len(stop) - 1, len(text)), 0, -1) if text.endswith(stop[:n])), 0)
