"""How much a design and everything it uses may hold, so that no file can take more than about a second.

Reading YAML in pure Python costs about 30 us a node and up to 1.5 us a character.
"""

BYTES = 512 * 1024
"""Bytes of one design file together with all the files it uses."""

NODES = 25_000
"""Keys, values, lists and mappings that are parsed, over all files."""

COPIES = 100_000
"""Keys, values, lists and mappings that aliases (`*x`) and repeated `use:` copy; a copy costs about 1 us."""

DEPTH = 32
"""Mappings and lists inside each other."""

USES = 32
"""Files that use each other in a chain."""

DIGITS = 40
"""Digits of an integer."""
