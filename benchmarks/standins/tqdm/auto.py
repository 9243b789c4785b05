"""The tqdm of notebooks and terminals."""

from tqdm import tqdm as tqdm
from tqdm import trange as trange
