"""Everybody who guesses. Whatever they say, the text stays the target's."""

from redline.drafters.compose import Compose
from redline.drafters.corpus import Corpus
from redline.drafters.early_exit import EarlyExit
from redline.drafters.forced import Forced
from redline.drafters.memory import Folder
from redline.drafters.model import ModelDrafter
from redline.drafters.ngram import Ngram
from redline.drafters.recycle import Recycle
from redline.drafters.replay import Replay
from redline.drafters.suffix import Suffix
from redline.drafters.translate import Translated

DRAFTERS = {
    "ngram": Ngram,
    "suffix": Suffix,
    "recycle": Recycle,
    "forced": Forced,
    "early_exit": EarlyExit,
    "model": ModelDrafter,
    "translate": Translated,
    "compose": Compose,
    "replay": Replay,
}
"""Every kind of drafter."""

__all__ = [
    "DRAFTERS",
    "Compose",
    "Corpus",
    "EarlyExit",
    "Folder",
    "Forced",
    "ModelDrafter",
    "Ngram",
    "Recycle",
    "Replay",
    "Suffix",
    "Translated",
]
