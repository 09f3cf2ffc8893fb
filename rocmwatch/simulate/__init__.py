"""A node that does not exist: a file tree laid out and moving as the kernel's, for tests, demos and laptops.

What the product may know of it is `--root DIR` and nothing else.
"""

from rocmwatch.simulate.kernels import KERNELS
from rocmwatch.simulate.models import MODELS
from rocmwatch.simulate.motion import State
from rocmwatch.simulate.node import MARKER, SimulatedNode
from rocmwatch.simulate.parts import Model
from rocmwatch.simulate.scenarios import SCENARIOS

__all__ = ["KERNELS", "MARKER", "MODELS", "SCENARIOS", "Model", "SimulatedNode", "State"]
