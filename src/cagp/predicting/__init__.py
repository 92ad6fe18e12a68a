"""From a solver and test points to posteriors: batches, stopping, bounds, status."""
