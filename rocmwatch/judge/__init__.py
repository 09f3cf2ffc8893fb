"""Thinks: pure functions over values, no clock, no files."""
