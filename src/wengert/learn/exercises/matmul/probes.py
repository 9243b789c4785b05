"""What the checks of `matmul` call, beside the submission: a small GPU. They contain no right answers."""

import numpy as np


class Matrix:
    """A matrix in global memory. It can be loaded from and stored to by element, and has nothing else to look at."""

    __slots__ = ("_load", "_store")

    def __init__(self, load, store):
        self._load, self._store = load, store

    def __getitem__(self, place):
        return self._load(place)

    def __setitem__(self, place, value):
        self._store(place, value)


def counted(array):
    """A Matrix with an array's values, and a function that tells how many loads and stores there were."""
    loads = stores = 0

    def load(place):
        nonlocal loads
        check(place)
        loads += 1
        return float(array[place])

    def store(place, value):
        nonlocal stores
        check(place)
        stores += 1
        array[place] = value

    def check(place):
        row, column = place
        if not (0 <= row < array.shape[0] and 0 <= column < array.shape[1]):
            raise IndexError(f"element ({row}, {column}) lies outside a matrix of {array.shape}")

    return Matrix(load, store), lambda: (loads, stores)


def product(a, b, reverse):
    """The product."""
    return traffic(a, b, reverse)["c"]


def traffic(a, b, reverse=False):
    """The product, how many loads and stores it took, and whether all blocks came to the same number of barriers."""
    from homework.matmul import T, kernel

    n = len(a)
    product = np.full((n, n), np.nan)
    (a, count_a), (b, count_b), (c, count_c) = map(counted, (a, b, product))
    blocks = [(x, y) for y in range(-(-n // T)) for x in range(-(-n // T))]
    places = [(x, y) for y in range(T) for x in range(T)]
    barriers = set()
    for block in blocks[::-1] if reverse else blocks:
        tiles = np.full((T, T), np.nan), np.full((T, T), np.nan)
        threads = [kernel(thread, block, n, a, b, c, *tiles) for thread in places]
        barriers.add(_run(threads[::-1] if reverse else threads))
    loads_of_c, stores_of_c = count_c()
    return {
        "c": product,
        "loads of a and b": count_a()[0] + count_b()[0],
        "stores of c": stores_of_c,
        "loads of c": loads_of_c,
        "different numbers of barriers": len(barriers),
    }


def _run(threads):
    """Run the threads of a block from barrier to barrier; how many barriers there were."""
    barriers = 0
    while True:
        ended = [next(thread, "ended") == "ended" for thread in threads]
        if all(ended):
            return barriers
        if any(ended):
            raise RuntimeError(f"{sum(not e for e in ended)} threads wait at a barrier that {sum(ended)} never reach")
        barriers += 1
