"""Sees: the only room that opens kernel files.

launcher.py   a process: keeps the capabilities, forks the readers         } standard library and kernel/ only:
reader.py     a process: answers requests, one frame a subject             } they stay small, and one that hangs in
sensors.py    what the sensors reader does for a GPU; discovery.py         } the driver takes nothing else with it
wire.py       the frames between them
link.py       main's side: starts, asks, gives up on readers
sampler.py    main's side: what is due, what came back, the Snapshot
"""
