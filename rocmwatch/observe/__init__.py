"""Sees: the only room that opens kernel files.

launcher.py      a process: keeps the capabilities, forks the readers       } standard library and kernel/ only:
reader.py        a process: answers requests, one frame a subject           } they stay small, and one that hangs in
sensors.py       what the sensors reader does: discovery.py (which GPUs),   } the driver takes nothing else with it
                 gpu_files.py, sensor_files.py (one GPU), files.py          }
wire.py          orders, frames and the mailbox between them
link.py          main's side of one reader, and of the launcher
crew.py stall.py main's side of all readers: who hangs is given up, and tried again; leftovers.py
sampler.py       main's side: what is due, what came back (track.py, sources.py), the Snapshot
record*.py       `rocmwatch record`: what is read (a table), by whom, the archive; scrub*.py replaces names and ids
"""
