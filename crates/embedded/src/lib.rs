//! A cluster that is a directory
