"""Commands for operators of a service: checks, keys, backups, the list of blocked hosts."""
