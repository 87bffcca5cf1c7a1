//! Frames of the data path, and what they carry
