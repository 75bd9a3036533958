"""How a parent gets in: from Python, from another agent."""
