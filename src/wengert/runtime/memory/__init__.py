"""Will it fit? A program's peak memory, known from its plan before anything runs.

`predict` adds up the parts of a plan; `machines` knows devices by name; `elsewhere` plans for a device that is not in
this machine; `budget` plans within a number of bytes or reports by how much that fails; `fits` answers for compiled
functions.
"""
