"""The log between processes: one promise, kept by Kafka and by tables of the same database."""
