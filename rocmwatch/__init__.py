"""rocmwatch: watches the VRAM of AMD GPUs from the driver's own files.

This package imports nothing, so that the readers (python -I -S) stay small.
"""
