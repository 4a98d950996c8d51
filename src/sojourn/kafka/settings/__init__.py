"""Settings by their Kafka names: which there are, and their values at each broker and topic."""
