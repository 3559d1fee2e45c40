"""What is wrong here, and what is only rounding."""

from redline.doctor.ties import Fork, explain

__all__ = ["Fork", "explain"]
