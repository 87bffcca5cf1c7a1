//! What is recorded and what comes out: sources and export formats
