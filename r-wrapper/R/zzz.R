# What this session knows of Python: the bridge, once it has been imported and checked.
the <- new.env(parent = emptyenv())
