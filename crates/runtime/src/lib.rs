//! Drives the engine against an API server.
