"""What a text may be at all: JSON of a schema, a regular expression, free text up to a marker.

A constraint is one state of a grammar and never changes, so the same one may begin any number of texts and
guesses can be followed down any branch. Schemas and expressions need llguidance: `pip install
'redline[grammar]'`.
"""

from redline.grammar.make import after_marker, check_document, regex, schema

__all__ = ["after_marker", "check_document", "regex", "schema"]
