//! The doors of a real machine.
