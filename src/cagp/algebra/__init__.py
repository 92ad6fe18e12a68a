"""Weights and what is done with G to compute them: sweeps and diagonal blocks; and how much work it is."""
