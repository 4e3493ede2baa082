#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fugue_hold::fuzzing::pane_files(bytes));
