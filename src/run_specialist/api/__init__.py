"""The Python API: `Runner`, `run` and `run_sync`, `Stream`, and the delegate tool for other agents."""
