"""The kernel's files as values: bytes in, records out, one module for each format.

Nothing here opens a file, asks the time or keeps a thread: `observe/` reads, this room understands. Every parser raises
`rocmwatch.errors.ParseError` and nothing else, and its `errno` says which kind of nonsense it was: `ENODATA` (empty),
`EBADMSG` (not in the format, or shorter than it says), `ERANGE` (a number that cannot be true).
Kernel units (milli-degrees, microwatts, MHz, percent) end here; what leaves this room is in base units.
"""
