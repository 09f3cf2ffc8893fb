"""The only wing that changes the world: the ledger of what was done, and what does it."""
