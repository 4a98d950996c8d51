"""What clients ask of a broker, one file for each family of requests: fields in, fields out."""
