//! The real ring of one core (to be built).
