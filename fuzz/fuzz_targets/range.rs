#![no_main]
byrote_fuzz::target!(range);
