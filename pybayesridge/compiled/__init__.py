"""C code and the library that is made of it when the package is built.

`library` loads it, `compiler` compiles the folder `c`: in it `columns`, the pass over wide columns, `tilted`, the
moments of rows of yes/no responses, and `sets`, the sampler of sets of columns. The code knows arrays alone, and
gives the same numbers on every processor. Ridge fits do without it where it is not there.
"""
