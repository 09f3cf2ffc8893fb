"""Nodes to look at, and those who look."""

from watching import node, watch

__all__ = ["node", "watch"]
