"""C code and the library that is made of it when the package is built.

`library` loads it, `compiler` compiles the folder `c`: in it `columns`, the pass over wide columns, `penalty`, the
posterior of the penalty of one response, `tilted`, the moments of rows of yes/no responses, `beta_binomial`, the
likelihood of shares, and `sets`, the sampler of sets of columns. The code knows arrays alone, and gives the same
numbers on every processor (`penalty`, `beta_binomial`: but for rounding errors of the system's exponentials and
logarithms). Ridge fits do without it where it is not there.
"""
