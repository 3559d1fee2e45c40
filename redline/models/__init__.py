"""Models by name: which files they are, how to get them, and whether they are whole."""

from redline.models.cache import find, folder, known, names, verify
from redline.models.catalogue import DEFAULT, Model, Part
from redline.models.fetch import pull
from redline.models.workshop import Progress

__all__ = ["DEFAULT", "Model", "Part", "Progress", "find", "folder", "known", "names", "pull", "verify"]
