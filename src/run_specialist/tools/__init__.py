"""What a specialist can do: rooted file tools, `respond`, and the interface that all tools share."""
