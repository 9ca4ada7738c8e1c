"""Table 2 and Figure 3 of Tew, Boley & Schmidt (2023), with our results."""
