"""Everybody who guesses. Whatever they say, the text stays the target's."""

from redline.drafters.model import ModelDrafter
from redline.drafters.ngram import Ngram
from redline.drafters.replay import Replay

__all__ = ["ModelDrafter", "Ngram", "Replay"]
