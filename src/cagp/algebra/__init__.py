"""Weights and what is done with G to compute them: sweeps, diagonal blocks, inducing points."""
