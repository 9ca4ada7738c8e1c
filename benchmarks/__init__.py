"""The benchmarks: scripts that write the pages in `benchmarks/results`, and what they share."""
