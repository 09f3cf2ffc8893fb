"""What the sensors reader does: the topology, and the readings of every GPU from descriptors that stay open."""

from rocmwatch.observe.discovery import Discovery
from rocmwatch.observe.files import Gone
from rocmwatch.observe.gpu_files import GpuFiles
from rocmwatch.observe.wire import CARDS, LIST, NODES, SLOW, GpuFrame, Order


class SensorReader:
    """Answers the orders that concern GPUs."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._discovery = Discovery(root)
        self._gpus: dict[str, GpuFiles] = {}

    def answer(self, order: Order) -> tuple[object, ...]:
        """The frame that an order asks for."""
        if order.subject == CARDS:
            return self._discovery.cards() or ()
        if order.subject == NODES:
            return self._discovery.nodes(anyway=order.what == LIST) or ()
        return self._gpu(order)

    def close(self) -> None:
        """Closes every file."""
        for pci in list(self._gpus):
            self._forget(pci)

    def _gpu(self, order: Order) -> GpuFrame:
        files = self._gpus.get(order.subject)
        if files is not None and not order.what & SLOW and files.are_of(order):
            try:
                return files.read(order.what)
            except Gone:
                pass  # or its files were replaced: the driver was loaded anew, or hwmon got another number
        self._forget(order.subject)  # a file that was not there may be by now
        try:
            files = self._gpus[order.subject] = GpuFiles(self._root, order)
            return files.read(order.what | SLOW)
        except Gone:
            self._forget(order.subject)
            return GpuFrame(state="gone")

    def _forget(self, pci: str) -> None:
        files = self._gpus.pop(pci, None)
        if files is not None:
            files.close()
