"""Everybody who guesses. Whatever they say, the text stays the target's."""

from redline.drafters.model import ModelDrafter
from redline.drafters.ngram import Ngram
from redline.drafters.replay import Replay

MODEL_FREE = {"ngram": Ngram}
"""Drafters that a name alone can make. Any other name is a draft model's."""

DRAFTERS = {**MODEL_FREE, "model": ModelDrafter, "replay": Replay}
"""Every kind of drafter."""

__all__ = ["DRAFTERS", "MODEL_FREE", "ModelDrafter", "Ngram", "Replay"]
