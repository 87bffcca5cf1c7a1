//! Simulated disks, faults, models to compare with, scenarios
