"""TLS and SASL: which protocol brokers speak, with which certificates, to which users."""
