//! Parse the command line, run the command, exit with its code.

fn main() {}
