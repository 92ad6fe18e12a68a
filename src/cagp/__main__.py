"""``python -m cagp`` is the command ``cagp``."""

from .cli import main

main()
