"""What events hold: numbers, histograms, images, texts and hyperparameters as TensorBoard's messages."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from tensorboard.compat.proto import summary_pb2, tensor_pb2, tensor_shape_pb2, types_pb2
from tensorboard.plugins.hparams import api_pb2, metadata, plugin_data_pb2, summary_v2

import wengert as wg

Summary = summary_pb2.Summary


def array_of(values: Any) -> np.ndarray[Any, Any]:
    """The numbers of a tensor, an array or a list."""
    return np.asarray(values.detach().cpu().numpy() if isinstance(values, wg.Tensor) else values)


def scalar(tag: str, value: Any) -> Any:
    """A number."""
    array = array_of(value)
    if array.size != 1:
        raise ValueError(f"add_scalar takes one number for {tag!r}, not {array.size}")
    return Summary(value=[Summary.Value(tag=tag, simple_value=float(array.reshape(())))])


def _edges() -> np.ndarray[Any, Any]:
    """TensorFlow's bounds of bins: each a tenth larger than the one before, from 1e-12 to 1e20, of both signs."""
    count = math.ceil(math.log(1e32) / math.log(1.1))
    positive = 1e-12 * 1.1 ** np.arange(count)
    return np.concatenate([-positive[::-1], [0.0], positive])


def histogram(tag: str, values: Any, bins: Any = "tensorflow") -> Any:
    """How often values come up in bins: TensorFlow's, or what NumPy takes."""
    array = array_of(values).astype(np.float64).reshape(-1)
    if array.size == 0:
        raise ValueError(f"add_histogram got no values for {tag!r}")
    counts, edges = np.histogram(array, bins=_edges() if isinstance(bins, str) and bins == "tensorflow" else bins)
    filled = np.flatnonzero(counts)
    if not filled.size:
        raise ValueError(f"add_histogram: all values of {tag!r} lie outside of the bins, or are NaN")
    first, last = int(filled[0]), int(filled[-1]) + 1
    message = summary_pb2.HistogramProto(
        min=array.min(),
        max=array.max(),
        num=array.size,
        sum=array.sum(),
        sum_squares=np.dot(array, array),
        bucket_limit=[edges[first], *edges[first + 1 : last + 1]],  # below the first one there is nothing
        bucket=[0.0, *counts[first:last]],
    )
    return Summary(value=[Summary.Value(tag=tag, histo=message)])


def _in_order(image: np.ndarray[Any, Any], dataformats: str) -> np.ndarray[Any, Any]:
    """An image, or several side by side, as rows, columns and channels."""
    names = dataformats.upper()
    if len(names) != image.ndim or len(set(names)) != len(names) or not set(names) <= set("NCHW"):
        raise ValueError(f"an image of shape {image.shape} is not {dataformats!r}")
    if "C" not in names:
        image, names = np.stack([image] * 3, -1), names + "C"
    if "N" in names:
        image = np.moveaxis(image, [names.index(axis) for axis in "NHWC"], range(4))
        return _grid(np.repeat(image, 3, -1) if image.shape[-1] == 1 else image)
    image = np.moveaxis(image, [names.index(axis) for axis in "HWC"], range(3))
    return np.repeat(image, 3, -1) if image.shape[-1] == 1 else image


def _grid(images: np.ndarray[Any, Any], columns: int = 8) -> np.ndarray[Any, Any]:
    """Images (N, H, W, C) as one, of this many columns."""
    count, height, width, channels = images.shape
    columns = min(columns, count)
    rows = -(-count // columns)
    whole = np.zeros((rows * columns, height, width, channels), images.dtype)
    whole[:count] = images
    parts = whole.reshape(rows, columns, height, width, channels).swapaxes(1, 2)
    return parts.reshape(rows * height, columns * width, channels)


def image(tag: str, values: Any, dataformats: str = "CHW") -> Any:
    """An image as PNG: bytes, or floating-point numbers from 0 to 1."""
    from wengert.torch.vision.images import pillow

    array = _in_order(array_of(values), dataformats)
    scaled = array if array.dtype == np.uint8 else np.clip(array.astype(np.float32) * 255, 0, 255).astype(np.uint8)
    file = io.BytesIO()
    pillow().fromarray(scaled).save(file, format="PNG")
    height, width, channels = scaled.shape
    message = Summary.Image(height=height, width=width, colorspace=channels, encoded_image_string=file.getvalue())
    return Summary(value=[Summary.Value(tag=tag, image=message)])


def figure(tag: str, figures: Any, close: bool = True) -> Any:
    """Figures of Matplotlib as an image."""
    drawn = []
    for each in figures if isinstance(figures, list) else [figures]:
        each.canvas.draw()
        drawn.append(np.asarray(each.canvas.buffer_rgba())[:, :, :3])
        if close:
            import matplotlib.pyplot

            matplotlib.pyplot.close(each)
    return image(tag, np.stack(drawn), "NHWC")


def text(tag: str, string: str) -> Any:
    """A text, which TensorBoard reads as Markdown."""
    plugin = summary_pb2.SummaryMetadata.PluginData(plugin_name="text", content=b"")
    message = tensor_pb2.TensorProto(
        dtype=types_pb2.DT_STRING,
        string_val=[string.encode()],
        tensor_shape=tensor_shape_pb2.TensorShapeProto(dim=[tensor_shape_pb2.TensorShapeProto.Dim(size=1)]),
    )
    known = summary_pb2.SummaryMetadata(plugin_data=plugin)
    return Summary(value=[Summary.Value(tag=f"{tag}/text_summary", metadata=known, tensor=message)])


def hparams(values: Mapping[str, Any], metrics: Mapping[str, Any]) -> list[Any]:
    """A trial's hyperparameters and the names of its metrics, as the three messages of TensorBoard's plugin."""
    plain = {name: array_of(v).item() if isinstance(v, (wg.Tensor, np.generic)) else v for name, v in values.items()}
    experiment = api_pb2.Experiment(
        hparam_infos=[api_pb2.HParamInfo(name=name) for name in plain],
        metric_infos=[api_pb2.MetricInfo(name=api_pb2.MetricName(tag=name)) for name in metrics],
    )
    ended = plugin_data_pb2.SessionEndInfo(status=api_pb2.STATUS_SUCCESS)
    return [
        _plugin(metadata.EXPERIMENT_TAG, plugin_data_pb2.HParamsPluginData(experiment=experiment)),
        Summary.FromString(summary_v2.hparams_pb(plain).SerializeToString()),
        _plugin(metadata.SESSION_END_INFO_TAG, plugin_data_pb2.HParamsPluginData(session_end_info=ended)),
    ]


def _plugin(tag: str, content: Any) -> Any:
    value = Summary.Value(tag=tag, metadata=metadata.create_summary_metadata(content))
    value.tensor.CopyFrom(metadata.NULL_TENSOR)
    return Summary(value=[value])
