"""Regret over mixes of adapters: every policy against the oracle, on measured acceptance and step times."""
