"""Commands for operators of a service: checks, keys, teams, the audit log, backups."""
