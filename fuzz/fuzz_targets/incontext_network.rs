#![no_main]
byrote_fuzz::target!(incontext_network);
