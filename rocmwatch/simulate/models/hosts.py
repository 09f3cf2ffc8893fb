"""The machines around the GPUs, and what several families share."""

from __future__ import annotations

from rocmwatch.simulate.parts import GIB, Host

SERVER = Host(sockets=2, cores=96, memory_bytes=1536 * GIB, cpu_clock_mhz=3700)
LARGE_SERVER = Host(sockets=2, cores=128, memory_bytes=3072 * GIB, cpu_clock_mhz=4100)
BLADE = Host(sockets=1, cores=64, memory_bytes=512 * GIB, cpu_clock_mhz=3500)
DESKTOP = Host(sockets=1, cores=16, memory_bytes=62 * GIB, cpu_clock_mhz=5700)
WORKSTATION = Host(sockets=1, cores=16, memory_bytes=125 * GIB, cpu_clock_mhz=5100)
LAPTOP = Host(sockets=1, cores=8, memory_bytes=30 * GIB, cpu_clock_mhz=5200)

INSTINCT_RAS = (  # blocks that count errors
    "umc",
    "sdma",
    "gfx",
    "mmhub",
    "athub",
    "pcie_bif",
    "hdp",
    "xgmi_wafl",
    "df",
    "smn",
    "sem",
    "mp0",
    "mp1",
    "fuse",
    "mca",
    "vcn",
    "jpeg",
)
