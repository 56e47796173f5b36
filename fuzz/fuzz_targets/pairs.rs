#![no_main]
byrote_fuzz::target!(pairs_file);
