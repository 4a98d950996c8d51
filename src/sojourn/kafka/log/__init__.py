"""One replica's log: batches of records, who wrote them, and in which transactions."""
