"""What can happen to a simulated node: one scenario a file.

Each has two parts: what the GPUs do (`live`, a State) and what happens to the file tree (`scene`). Both are pure
functions of the seed and the simulated time.
"""

from rocmwatch.simulate.scenarios.dead_sensors import DEAD_SENSORS
from rocmwatch.simulate.scenarios.fragmenting import FRAGMENTING
from rocmwatch.simulate.scenarios.gpu_lost import GPU_LOST
from rocmwatch.simulate.scenarios.healthy import HEALTHY
from rocmwatch.simulate.scenarios.hung_gpu import HUNG_GPU
from rocmwatch.simulate.scenarios.partition_switch import PARTITION_SWITCH
from rocmwatch.simulate.scenarios.scene import Scenario
from rocmwatch.simulate.scenarios.suspended import SUSPENDED
from rocmwatch.simulate.scenarios.thermal import THERMAL

SCENARIOS: dict[str, Scenario] = {
    scenario.name: scenario
    for scenario in (
        HEALTHY,
        THERMAL,
        HUNG_GPU,
        GPU_LOST,
        PARTITION_SWITCH,
        SUSPENDED,
        FRAGMENTING,
        DEAD_SENSORS,
    )
}
