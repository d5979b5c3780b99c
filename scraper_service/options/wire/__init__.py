"""How JSON spells options of pages and jobs: v2, also for the shell and the library, and what v1 shares."""
