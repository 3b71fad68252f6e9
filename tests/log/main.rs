//! One partition's log on a simulated disk: files, recovery, producers, times. One binary, so that it links once.

mod golden;
mod kept_places;
mod model;
mod producers;
mod recovery;
mod times;
mod unsynced;
