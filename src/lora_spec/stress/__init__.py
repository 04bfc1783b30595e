"""Multi-tenant stress: live runs against a server, and a simulator of the same server."""
