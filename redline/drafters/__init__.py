"""Everybody who guesses. Whatever they say, the text stays the target's."""

from redline.drafters.model import ModelDrafter
from redline.drafters.ngram import Ngram
from redline.drafters.replay import Replay

DRAFTERS = {"ngram": Ngram, "model": ModelDrafter, "replay": Replay}
"""Every kind of drafter by name."""

__all__ = ["DRAFTERS", "ModelDrafter", "Ngram", "Replay"]
