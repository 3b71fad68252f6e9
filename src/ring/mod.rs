//! The only place that talks to the kernel or reads a clock.
