"""What /proc/cpuinfo says of the machine: its architecture and the name of its CPU, for people to read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_ARM_CORES: Final[Mapping[tuple[int, int], str]] = {
    (0x41, 0xD03): "Arm Cortex-A53",
    (0x41, 0xD05): "Arm Cortex-A55",
    (0x41, 0xD08): "Arm Cortex-A72",
    (0x41, 0xD0B): "Arm Cortex-A76",
    (0x41, 0xD0C): "Arm Neoverse-N1",
    (0x41, 0xD40): "Arm Neoverse-V1",
    (0x41, 0xD41): "Arm Cortex-A78",
    (0x41, 0xD49): "Arm Neoverse-N2",
    (0x41, 0xD4F): "Arm Neoverse-V2",
    (0x41, 0xD8E): "Arm Neoverse-N3",
    (0x43, 0x0AF): "Cavium ThunderX2",
    (0x46, 0x001): "Fujitsu A64FX",
    (0x48, 0xD01): "HiSilicon Kunpeng 920",
    (0xC0, 0xAC3): "Ampere-1",
    (0xC0, 0xAC4): "Ampere-1A",
}
"""(CPU implementer, CPU part) of the cores one meets in servers and on small boards."""

_S390_MACHINE: Final = re.compile(r"machine\s*=\s*(\w+)")
_PPC_CPU: Final = re.compile(r"POWER|PPC|RS64", re.IGNORECASE)


def architecture(cpuinfo: str) -> str:
    """The machine name that ``uname -m`` most likely gave on the machine of this text; "unknown" if it does not say."""
    fields = _first_values(cpuinfo)
    vendor = fields.get("vendor_id", "")
    signs = (
        ("s390x", "S390" in vendor.upper()),
        ("x86_64", "lm" in fields.get("flags", "").split()),
        ("i686", bool(vendor)),
        ("armv7l", fields.get("cpu architecture") == "7"),
        ("aarch64", "cpu architecture" in fields or "cpu implementer" in fields),
        ("ppc64le", bool(_PPC_CPU.match(fields.get("cpu", "")))),
        ("riscv64", fields.get("isa", "").startswith("rv64")),
        ("loongarch64", fields.get("system type", "").startswith("generic-loongson")),
    )
    return next((name for name, found in signs if found), "unknown")


def cpu_model(cpuinfo: str) -> str:
    """The name of the CPU; "" if the text does not tell. On hybrid ARM machines that of the first core."""
    fields = _first_values(cpuinfo)
    for name in ("model name", "cpu model"):
        if fields.get(name):
            return " ".join(fields[name].split())
    if "cpu implementer" in fields:
        return _arm_model(fields)
    if _PPC_CPU.match(fields.get("cpu", "")):
        return fields["cpu"].split(",")[0].strip()
    if match := _S390_MACHINE.search(cpuinfo):
        return f"IBM Z machine type {match[1]}"
    return fields.get("uarch", "")


def _arm_model(fields: Mapping[str, str]) -> str:
    implementer, part = fields["cpu implementer"], fields.get("cpu part", "")
    try:
        known = _ARM_CORES.get((int(implementer, 16), int(part, 16)))
    except ValueError:
        known = None
    return known or f"ARM implementer {implementer} part {part or 'unknown'}"


def _first_values(cpuinfo: str) -> dict[str, str]:
    """The first value of each ``name : value`` line, names in lower case."""
    values: dict[str, str] = {}
    for line in cpuinfo.splitlines():
        name, colon, value = line.partition(":")
        if colon:
            values.setdefault(name.strip().lower(), value.strip())
    return values
