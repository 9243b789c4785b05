"""`torch.nn.utils.convert_parameters`: all parameters as one vector, and back."""

from wengert.nn.utils import parameters_to_vector, vector_to_parameters

__all__ = ["parameters_to_vector", "vector_to_parameters"]
