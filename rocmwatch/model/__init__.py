"""What rocmwatch knows, as frozen values.

Units are in the names, and a field's name is the metric's name (`vram_used_bytes` -> `rocmwatch_gpu_vram_used_bytes`).
`None`, or a key that is missing from a mapping, means "not reported": never 0. Ratios go from 0 to 1.
Moments are Unix seconds (`*_at`); everything here is swapped whole and never changed, mappings included.
"""

from rocmwatch.model.gpu import (
    Fault,
    Fragmentation,
    FreeBlocks,
    Gpu,
    GpuEvents,
    GpuReading,
    GpuSample,
    GpuState,
    Limits,
    Partition,
    PartitionSample,
    PcieLink,
    Pool,
    Pressure,
)
from rocmwatch.model.holders import (
    Action,
    Attribution,
    Balance,
    CgroupVram,
    GpuProcess,
    Held,
    Holder,
    HolderClass,
    Holdings,
    Owner,
    OwnerKind,
    UnitState,
    Use,
)
from rocmwatch.model.picture import (
    ReaderStatus,
    Snapshot,
    SourceStatus,
    Trend,
    View,
)
from rocmwatch.model.values import (
    EMPTY,
    frozen,
)

__all__ = [
    "EMPTY",
    "Action",
    "Attribution",
    "Balance",
    "CgroupVram",
    "Fault",
    "Fragmentation",
    "FreeBlocks",
    "Gpu",
    "GpuEvents",
    "GpuProcess",
    "GpuReading",
    "GpuSample",
    "GpuState",
    "Held",
    "Holder",
    "HolderClass",
    "Holdings",
    "Limits",
    "Owner",
    "OwnerKind",
    "Partition",
    "PartitionSample",
    "PcieLink",
    "Pool",
    "Pressure",
    "ReaderStatus",
    "Snapshot",
    "SourceStatus",
    "Trend",
    "UnitState",
    "Use",
    "View",
    "frozen",
]
