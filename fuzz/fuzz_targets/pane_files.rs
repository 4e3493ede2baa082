#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fugue_holder::fuzzing::pane_files(bytes));
