"""Execution: dynamic (`realize`), static (`compile`), and their settings (`config`)."""

from wengert import backends as _backends  # which registers the kinds of devices
from wengert.core import devices as _devices

_devices.of(_devices.HOST)
