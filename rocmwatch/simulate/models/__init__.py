"""The GPUs that can be simulated, as data. What one has and another lacks is a field here, not a branch elsewhere.

Sizes, names, ids and highest clocks are those of the real products, where they are public. Invented: serial numbers,
firmware, subsystems and the machines around; plausible: limits of temperature, powers at idle, floors of memory.
"""

from __future__ import annotations

from rocmwatch.simulate.models.apu import APU, PHOENIX, STRIX_HALO
from rocmwatch.simulate.models.mi200 import MI210, MI250X
from rocmwatch.simulate.models.mi300 import MI300X, MI300X_CPX, MI300X_NPS4, MI325X, MI325X_DPX, MI355X
from rocmwatch.simulate.models.radeon import RX7900XTX
from rocmwatch.simulate.parts import Model

_ALL = (
    MI210,
    MI250X,
    MI300X,
    MI300X_CPX,
    MI300X_NPS4,
    MI325X,
    MI325X_DPX,
    MI355X,
    RX7900XTX,
    APU,
    PHOENIX,
    STRIX_HALO,
)
MODELS: dict[str, Model] = {model.name: model for model in _ALL}
