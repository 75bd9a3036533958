"""Spending of a run, and the shares of its budget that children draw on."""
