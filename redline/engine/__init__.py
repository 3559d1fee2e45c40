"""The loop that turns guesses into text, and what is built right on top of it."""

from redline.engine.engine import Engine
from redline.engine.generate import Piece, Prompt, Result, generate, generate_many, stream

__all__ = ["Engine", "Piece", "Prompt", "Result", "generate", "generate_many", "stream"]
