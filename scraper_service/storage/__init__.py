"""The job database: a module or folder for each thing that is stored."""
