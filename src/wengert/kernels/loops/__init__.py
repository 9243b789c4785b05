"""Loops and branches whose bodies are written out element by element: one C function each, with nothing called inside.

`lanes` finds the axes along which a body computes the same for every index, `elements` writes a body as straight-line C
over its elements, `write` puts the loop around it. A body that is too large, or has an op that is no arithmetic of
elements, is planned as a program is and called step by step: see `plan/bodies.py`.
"""
