"""What `rocmwatch record` may read, as a table, and what is done to it. Nothing else is opened.

A path is one below its base. `{a,b}` stands for each of the names, `#` for a number, `*` for a name. What is fixed in a
path and is not there is noted as absent; a pattern without a match is not.

A rule says what the bytes are, and so what of them is replaced (scrub.py does it):

    kernel       made by the kernel, the driver or the board; names in it are public words
    text         may repeat what the machine's owner wrote (a kernel of one's own)
    binary       numbers in a fixed layout
    number       an id, as one number          id      an id, as one text          host       the host's name
    properties   "key value" lines, of which unique_id and hive_id are ids
    name stat status cgroup cmdline fdinfo     of a process: hold names that people chose
"""

import itertools
import re
from collections.abc import Iterator
from typing import NamedTuple

ROOT = "root"  # of the node
CARD = "card"  # the device of any card
GPU = "gpu"  # the device of a card of amdgpu
RENDER = "render"  # the device of a render node: a GPU's, or that of one of its partitions
TABLE = "table"  # a GPU's folder in debugfs
BOOKS = "books"  # a process's folder in the compute driver's books
PROCESS = "process"  # the /proc folder of a process that has a GPU
THREAD = "thread"  # of such a process, where its leader has ended
CLIENT = "client"  # the fdinfo of one of its open GPUs
CGROUP = "cgroup"  # a control group that has VRAM

KERNEL, TEXT, BINARY, NUMBER, ID, HOST, PROPERTIES = "kernel", "text", "binary", "number", "id", "host", "properties"
NAME, STAT, STATUS, CGROUPS, CMDLINE, FDINFO = "name", "stat", "status", "cgroup", "cmdline", "fdinfo"
NAME_RULES = frozenset({NAME, STAT, STATUS, CGROUPS, CMDLINE, FDINFO})
SCRUBBED = NAME_RULES | {NUMBER, ID, HOST, PROPERTIES, TEXT}

LARGEST_BYTES = 240 << 10  # of a file; what the reader's frame holds
_SMU = True


class Item(NamedTuple):
    """A line of the table.

    Attributes:
        base: What the path is below of.
        path: See the module.
        rule: What the bytes are.
        awake: Whether a read may ask the card's firmware, or its bus: only of a card that is awake.
    """

    base: str
    path: str
    rule: str = KERNEL
    awake: bool = False


ITEMS = (
    Item(ROOT, "proc/{meminfo,uptime}"),
    Item(ROOT, "proc/sys/kernel/osrelease", TEXT),
    Item(ROOT, "proc/sys/kernel/hostname", HOST),
    Item(ROOT, "proc/sys/kernel/random/boot_id", ID),
    Item(ROOT, "sys/module/amdgpu/{version,srcversion}"),
    Item(ROOT, "sys/module/amdgpu/parameters/*", TEXT),
    Item(ROOT, "sys/module/ttm/parameters/{pages_limit,page_pool_size}"),
    Item(ROOT, "sys/class/kfd/kfd/topology/generation_id"),
    Item(ROOT, "sys/class/kfd/kfd/topology/nodes/#/{gpu_id,name}"),
    Item(ROOT, "sys/class/kfd/kfd/topology/nodes/#/properties", PROPERTIES),
    Item(ROOT, "sys/class/kfd/kfd/topology/nodes/#/mem_banks/#/{properties,used_memory}"),
    Item(ROOT, "sys/fs/cgroup/dmem.capacity"),
    Item(CARD, "uevent"),
    # Of a GPU in any state: the driver's memory, or the bus's.
    Item(GPU, "{vendor,device,subsystem_vendor,subsystem_device,revision,class,numa_node,local_cpulist}"),
    Item(GPU, "power/{control,runtime_status,runtime_enabled,runtime_active_time,runtime_suspended_time}"),
    Item(GPU, "power/autosuspend_delay_ms"),
    Item(GPU, "mem_info_{vram,vis_vram,gtt}_{total,used}"),
    Item(GPU, "{mem_info_preempt_used,mem_info_vram_vendor,vbios_version,board_info,manufacturer,product_name}"),
    Item(GPU, "{serial_number,product_number,fru_id}", ID),
    Item(GPU, "unique_id", NUMBER),
    Item(GPU, "{current,available}_{compute,memory}_partition"),
    Item(GPU, "fw_version/*"),
    Item(GPU, "{xgmi_physical_id,xgmi_num_hops,xgmi_num_links}"),
    Item(GPU, "xgmi_device_id", NUMBER),
    Item(GPU, "xgmi_hive_info/xgmi_hive_id", NUMBER),
    Item(GPU, "ras/{features,version,schema,event_state}"),
    Item(TABLE, "amdgpu_vram_mm"),
    # Of a GPU that is awake.
    Item(GPU, "gpu_metrics", BINARY, _SMU),
    Item(GPU, "{gpu,mem,vcn}_busy_percent", KERNEL, _SMU),
    Item(GPU, "pp_dpm_{sclk,mclk,socclk,fclk,pcie}", KERNEL, _SMU),
    Item(GPU, "power_dpm_force_performance_level", KERNEL, _SMU),
    Item(GPU, "{current,max}_link_{speed,width}", KERNEL, _SMU),
    Item(GPU, "pcie_replay_count", KERNEL, _SMU),
    Item(GPU, "hwmon/hwmon#/name", KERNEL, _SMU),
    Item(GPU, "hwmon/hwmon#/temp#_{label,input,crit,crit_hyst,emergency}", KERNEL, _SMU),
    Item(GPU, "hwmon/hwmon#/power#_{label,input,average,cap,cap_default,cap_min,cap_max}", KERNEL, _SMU),
    Item(GPU, "hwmon/hwmon#/{freq,in}#_{label,input}", KERNEL, _SMU),
    Item(GPU, "hwmon/hwmon#/fan#_{input,enable,min,max}", KERNEL, _SMU),
    Item(GPU, "ras/*_err_count", KERNEL, _SMU),
    Item(RENDER, "xcp/xcp_metrics", BINARY, _SMU),
    # Of the processes that have something of a GPU.
    Item(BOOKS, "pasid"),
    Item(BOOKS, "vram_#"),
    Item(BOOKS, "stats_#/evicted_ms"),
    Item(BOOKS, "counters_#/{faults,page_in,page_out}"),
    Item(BOOKS, "queues/#/{gpuid,size,type}"),
    Item(PROCESS, "comm", NAME),
    Item(PROCESS, "stat", STAT),
    Item(PROCESS, "status", STATUS),
    Item(PROCESS, "cgroup", CGROUPS),
    Item(PROCESS, "cmdline", CMDLINE),
    Item(THREAD, "stat", STAT),
    Item(CLIENT, "fdinfo", FDINFO),
    Item(CGROUP, "dmem.current"),
    Item(CGROUP, "cgroup.procs"),
)

# What lies beside these and is never opened, to be named in the manifest. Some reset a GPU, stop it for a second, clear
# a counter or are its memory. What is in neither list is not opened either.
FORBIDDEN = re.compile(
    r".*/(?:pcie_bw|xgmi_error|pp_table|pm_metrics|config|rom|remove|reset|rescan|psp_vbflash|gpu_od|resource[0-9]\w*"
    r"|sdma_[0-9]+|cu_occupancy"
    r"|amdgpu_(?:gpu_recover|evict_\w+|test_ib|vram|iomem|regs\w*|pm_info|benchmark|fence_info|gtt|sa_info|wave|gpr|gca"
    r"\w*|discovery|vbios|mqd\w*|ring_\w+|sensors|force_sclk|preempt_ib|reset_dump\w*|gfxoff\w*))"
)

Part = "str | re.Pattern[str]"


def parts(path: str) -> "Iterator[tuple[str | re.Pattern[str], ...]]":
    """Each path that braces stand for, name by name: a text where it is fixed, else what it has to match."""
    pieces = re.split(r"\{([^}]*)\}", path)
    for chosen in itertools.product(*(piece.split(",") if at % 2 else (piece,) for at, piece in enumerate(pieces))):
        yield tuple(map(_part, "".join(chosen).split("/")))


def _part(name: str) -> "str | re.Pattern[str]":
    if "#" not in name and "*" not in name:
        return name
    return re.compile(re.escape(name).replace(r"\#", "[0-9]+").replace(r"\*", "[A-Za-z0-9_]+"))


def items(base: str) -> Iterator[Item]:
    """The lines of one base, a path each."""
    return (item for item in ITEMS if item.base == base)
