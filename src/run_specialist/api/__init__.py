"""How a program gets in: a runner, one question, a stream of events, a tool for another agent."""
