"""Items of a batch on many hosts: PgQueuer dispatches them, and the store of the runs holds their state."""
