"""Every device, driver and program has each member of its protocol, with the same parameters."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import wengert as wg
from tests.backends.emulated import EmulatedDriver, EmulatedEvent, EmulatedGraph, IdleDriver
from wengert.backends import protocol
from wengert.backends.cpu.device import HostDevice
from wengert.backends.cpu.program import CpuProgram
from wengert.backends.cuda.device import CudaDevice
from wengert.backends.cuda.driver import CudaDriver
from wengert.backends.cuda.event import CudaEvent
from wengert.backends.cuda.graph import CudaGraph
from wengert.backends.cuda.kernel import DependentLaunch
from wengert.backends.cuda.program import CudaProgram
from wengert.core import devices
from wengert.runtime.program import Interpreter

IMPLEMENTATIONS = [
    (devices.Device, HostDevice),
    (devices.Device, CudaDevice),
    (protocol.Driver, CudaDriver),
    (protocol.Driver, EmulatedDriver),
    (protocol.Driver, IdleDriver),
    (protocol.StreamEvent, CudaEvent),
    (protocol.StreamEvent, EmulatedEvent),
    (protocol.CapturedGraph, CudaGraph),
    (protocol.CapturedGraph, EmulatedGraph),
    (protocol.Replayable, DependentLaunch),
    (protocol.Program, CpuProgram),
    (protocol.Program, CudaProgram),
    (protocol.Runnable, Interpreter),
]


def methods(kind: type) -> dict[str, Any]:
    """The methods that a protocol asks for, by name."""
    found = [each for base in kind.__mro__ if getattr(base, "_is_protocol", False) for each in vars(base).items()]
    return {name: value for name, value in found if inspect.isfunction(value) and name in asked_for(kind)}


def asked_for(kind: type) -> set[str]:
    """The members of a protocol that are methods or properties."""
    bases = [base for base in kind.__mro__ if getattr(base, "_is_protocol", False)]
    own = {name for base in bases for name, value in vars(base).items() if callable(value) or type(value) is property}
    return {name for name in own if not name.startswith("_") or name == "__call__"}


def parameters(function: Any) -> list[tuple[str, Any, Any]]:
    found = list(inspect.signature(function).parameters.values())
    return [(p.name, p.kind, p.default is p.empty) for p in found]


@pytest.mark.parametrize(("kind", "implementation"), IMPLEMENTATIONS)
def test_methods_have_the_parameters_of_the_protocol(kind: type, implementation: type) -> None:
    assert methods(kind)
    wrong = [
        f"{name}{inspect.signature(getattr(implementation, name))}"
        for name, asked in methods(kind).items()
        if parameters(getattr(implementation, name, len)) != parameters(asked)
    ]
    assert not wrong


@pytest.mark.parametrize("device", [HostDevice(), CudaDevice("cuda:0", EmulatedDriver())], ids=lambda d: d.name)
def test_devices_have_the_properties_of_the_protocol(device: devices.Device) -> None:
    assert devices.is_device(device.name) and device.model
    assert devices.kind_of(device.name) == devices.exchanged(device.dlpack_device[0])
    assert device.can_compile() in (True, False)


def test_programs_have_the_properties_of_the_protocol(gpu: EmulatedDriver) -> None:
    for name, language in ((devices.HOST, "C"), ("cuda:0", "CUDA")):
        x = wg.ones((4, 8), device=name)
        compiled: Any = wg.compile(lambda x: wg.softmax(x, axis=1))
        compiled(x)
        program: protocol.Program = compiled._newest("a test").program
        for member in asked_for(protocol.Program):
            assert hasattr(program, member), member
        assert (program.device, program.language, program.is_compiled) == (name, language, True)
        assert (program.tuning() is None) == devices.is_host(name)
        assert program.described() and program.source and program.text_of(0)


def test_only_the_registry_names_devices() -> None:
    assert devices.in_use() == [name for name in devices._opened if not devices.is_host(name)]
    assert devices.of(devices.HOST) is devices.of(devices.HOST)
    assert not devices.is_device("gpu") and devices.is_device("cuda:3") and not devices.is_device("cpu:0")


def test_arrays_are_moved_through_the_registry(gpu: EmulatedDriver) -> None:
    host = wg.arange(6).numpy()
    there = devices.moved(host, "cuda:0")
    assert there.device == "cuda:0" and (devices.on_host(there) == host).all()
    assert devices.on_host(host) is host and devices.moved(host, devices.HOST) is host
    empty = devices.of("cuda:0").empty(there.shape, there.dtype)
    devices.of("cuda:0").copy_into(empty, there)
    assert (devices.on_host(empty) == host).all() and devices.is_sole(empty) and devices.owns_memory(there)
