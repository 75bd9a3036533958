"""A fault-injecting proxy: it sits in front of a strict simulator and corrupts the selected replies."""
