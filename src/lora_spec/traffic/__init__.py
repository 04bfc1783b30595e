"""Makes traffic: when requests arrive, for which adapter, how long. Measures nothing."""
