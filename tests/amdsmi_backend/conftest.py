"""Nodes, and an amdsmi that answers for them."""

from rocm import built, pair, rocm
from watching import node, watch

__all__ = ["built", "node", "pair", "rocm", "watch"]
