"""Will it fit? What a program takes at its peak, known from its plan before anything runs.

`predict` adds up the parts of a plan; `machines` knows devices by name; `elsewhere` plans for a device that is not
here; `budget` plans within a number of bytes or says by how much that fails; `fits` answers for compiled functions.
"""
