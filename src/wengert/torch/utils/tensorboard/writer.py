"""`SummaryWriter`: adds numbers, histograms, images, texts and graphs to an event file."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from tensorboard.compat.proto import event_pb2
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from wengert.torch.utils.tensorboard import summary


class SummaryWriter:
    """Writes events into a folder, `runs/<time>_<host>` if none is given; TensorBoard shows them."""

    def __init__(
        self,
        log_dir: Any = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: int = 120,
        filename_suffix: str = "",
    ) -> None:
        started = datetime.now().strftime("%b%d_%H-%M-%S")
        self.log_dir = os.fspath(log_dir or os.path.join("runs", f"{started}_{socket.gethostname()}{comment}"))
        self._options = (max_queue, flush_secs, filename_suffix)
        self._writers: dict[str, Any] = {}
        self.file_writer = self._writer(self.log_dir)
        if purge_step is not None:
            self._add(event_pb2.Event(file_version="brain.Event:2"), purge_step)
            log = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
            self._add(event_pb2.Event(session_log=log), purge_step)

    def _writer(self, folder: str) -> Any:
        if folder not in self._writers:
            self._writers[folder] = EventFileWriter(folder, *self._options)
        return self._writers[folder]

    def _add(self, event: Any, step: Any = None, walltime: float | None = None, folder: str | None = None) -> None:
        event.wall_time = time.time() if walltime is None else walltime
        if step is not None:
            event.step = int(step)
        self._writer(self.log_dir if folder is None else folder).add_event(event)

    def _add_summary(self, made: Any, step: Any, walltime: float | None, folder: str | None = None) -> None:
        self._add(event_pb2.Event(summary=made), step, walltime, folder)

    def get_logdir(self) -> str:
        """The folder of the files."""
        return self.log_dir

    def add_scalar(
        self,
        tag: str,
        scalar_value: Any,
        global_step: Any = None,
        walltime: float | None = None,
        new_style: bool = False,
        double_precision: bool = False,
    ) -> None:
        """Add a number: `add_scalar("loss", loss, step)`."""
        self._add_summary(summary.scalar(tag, scalar_value), global_step, walltime)

    def add_scalars(
        self, main_tag: str, tag_scalar_dict: Mapping[str, Any], global_step: Any = None, walltime: float | None = None
    ) -> None:
        """Add numbers that one plot shows, each in a file below the folder."""
        for tag, value in tag_scalar_dict.items():
            folder = os.path.join(self.log_dir, main_tag.replace("/", "_") + "_" + tag)
            self._add_summary(summary.scalar(main_tag, value), global_step, walltime, folder)

    def add_histogram(
        self,
        tag: str,
        values: Any,
        global_step: Any = None,
        bins: Any = "tensorflow",
        walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:
        """Add how values are distributed."""
        self._add_summary(summary.histogram(tag, values, bins), global_step, walltime)

    def add_image(
        self,
        tag: str,
        img_tensor: Any,
        global_step: Any = None,
        walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:
        """Add an image: bytes, or numbers from 0 to 1."""
        self._add_summary(summary.image(tag, img_tensor, dataformats), global_step, walltime)

    def add_images(
        self,
        tag: str,
        img_tensor: Any,
        global_step: Any = None,
        walltime: float | None = None,
        dataformats: str = "NCHW",
    ) -> None:
        """Add several images as one."""
        self._add_summary(summary.image(tag, img_tensor, dataformats), global_step, walltime)

    def add_figure(
        self, tag: str, figure: Any, global_step: Any = None, close: bool = True, walltime: float | None = None
    ) -> None:
        """Add a figure of Matplotlib, or a list of them, as an image."""
        self._add_summary(summary.figure(tag, figure, close), global_step, walltime)

    def add_text(self, tag: str, text_string: str, global_step: Any = None, walltime: float | None = None) -> None:
        """Add a text."""
        self._add_summary(summary.text(tag, text_string), global_step, walltime)

    def add_graph(
        self, model: Any, input_to_model: Any = None, verbose: bool = False, use_strict_trace: bool = True
    ) -> None:
        """Add the graph of a model's layers, as they are called for an input."""
        from wengert.torch.utils.tensorboard.graph import graph_of

        self._add(event_pb2.Event(graph_def=graph_of(model, input_to_model).SerializeToString()))

    def add_hparams(
        self,
        hparam_dict: Mapping[str, Any],
        metric_dict: Mapping[str, Any],
        hparam_domain_discrete: Any = None,
        run_name: str | None = None,
        global_step: Any = None,
    ) -> None:
        """Add a trial's hyperparameters and what came of them, in a run below the folder."""
        folder = os.path.join(self.log_dir, run_name or str(time.time()))
        for made in summary.hparams(hparam_dict, metric_dict):
            self._add_summary(made, None, None, folder)
        for tag, value in metric_dict.items():
            self._add_summary(summary.scalar(tag, value), global_step, None, folder)

    def flush(self) -> None:
        """Write what waits."""
        for writer in self._writers.values():
            writer.flush()

    def close(self) -> None:
        """Write what waits, and close the files; adding more opens others."""
        for writer in self._writers.values():
            writer.flush()
            writer.close()
        self._writers.clear()

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, *exception: Any) -> None:
        self.close()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise AttributeError(f"torch.utils.tensorboard.SummaryWriter.{name} is not in wengert.torch")
