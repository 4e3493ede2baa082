#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fugue_tui::fuzzing::attach(bytes));
