"""What is published: one View, swapped by one assignment.

The daemon's tick and every command that takes a reading of its own come through here.
"""

from rocmwatch.picture.studio import Publisher, Studio, counted, judged

__all__ = ["Publisher", "Studio", "counted", "judged"]
