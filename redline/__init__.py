"""Speculative decoding that is exact, never slower by measurement, and explains itself."""
