"""Architecture and CPU name out of /proc/cpuinfo, as kernels of each architecture write it."""

from __future__ import annotations

import pytest

from balloonist import cpuinfo

X86 = """\
processor\t: 0
vendor_id\t: AuthenticAMD
cpu family\t: 25
model name\t: AMD EPYC 9654  96-Core Processor
flags\t\t: fpu vme de lm constant_tsc
"""
X86_32 = X86.replace(" lm ", " ").replace("AMD EPYC 9654  96-Core Processor", "Geode")
NEOVERSE = """\
processor\t: 0
BogoMIPS\t: 2000.00
Features\t: fp asimd
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x0
CPU part\t: 0xd4f
"""
POWER = """\
processor\t: 0
cpu\t\t: POWER9, altivec supported
clock\t\t: 2166.000000MHz
revision\t: 2.2 (pvr 004e 1202)

timebase\t: 512000000
platform\t: PowerNV
"""
S390 = """\
vendor_id       : IBM/S390
# processors    : 4
features\t: esan3 zarch
processor 0: version = FF,  identification = 0133E8,  machine = 3906
"""
RISCV = """\
processor\t: 0
hart\t\t: 1
isa\t\t: rv64imafdc
mmu\t\t: sv39
uarch\t\t: sifive,u74-mc
"""


@pytest.mark.parametrize(
    ("text", "architecture", "model"),
    [
        (X86, "x86_64", "AMD EPYC 9654 96-Core Processor"),
        (X86_32, "i686", "Geode"),
        (NEOVERSE, "aarch64", "Arm Neoverse-V2"),
        (NEOVERSE.replace("0x41", "0x99"), "aarch64", "ARM implementer 0x99 part 0xd4f"),
        (NEOVERSE.replace("0xd4f", "odd"), "aarch64", "ARM implementer 0x41 part odd"),
        (NEOVERSE.replace("architecture: 8", "architecture: 7"), "armv7l", "Arm Neoverse-V2"),
        (POWER, "ppc64le", "POWER9"),
        (S390, "s390x", "IBM Z machine type 3906"),
        (RISCV, "riscv64", "sifive,u74-mc"),
        ("", "unknown", ""),
        ("\x00\ufffd:::", "unknown", ""),
    ],
)
def test_what_kernels_write(text: str, architecture: str, model: str) -> None:
    assert cpuinfo.architecture(text) == architecture
    assert cpuinfo.cpu_model(text) == model
