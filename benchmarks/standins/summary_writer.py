"""What stands for `torch.utils.tensorboard` where tensorboard is not installed."""

from typing import Any


class SummaryWriter:
    """Writes nothing."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        """Take what is asked."""

    def _nothing(self, *arguments: Any, **options: Any) -> None:
        """Write nothing."""

    add_scalar = add_scalars = add_histogram = add_image = add_text = flush = close = _nothing
