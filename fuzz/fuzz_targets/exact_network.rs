#![no_main]
byrote_fuzz::target!(exact_network);
