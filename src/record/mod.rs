//! Record batches and the words that every folder above shares.
