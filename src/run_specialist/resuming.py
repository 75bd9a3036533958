"""From a stored run to one that goes on."""
