#![no_main]
byrote_fuzz::target!(run_directory);
