"""`python -m redline` is `redline`."""

from redline.cli import main

main()
