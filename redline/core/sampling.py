"""placeholder"""
from dataclasses import dataclass


@dataclass(frozen=True)
class Sampling:
    temperature: float = 0.0
