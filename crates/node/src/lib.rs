//! Serves targets to clients
