"""`torch.version`: the version of PyTorch whose names these are."""

__version__ = "2.13.0+wengert"
cuda: str | None = None
hip: str | None = None
git_version = ""
debug = False
