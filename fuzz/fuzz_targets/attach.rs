//! The parser is a part of the binary, which nothing can link: its files are taken in by their paths.

#![no_main]
#![expect(dead_code, reason = "the rest of the binary uses it")]

#[path = "../../crates/fugue/src/attach"]
mod attach {
    pub mod clean;
    pub mod fuzzing;
    pub mod input;
    pub mod keys;
    pub mod mouse;
}
#[path = "../../crates/fugue/src/text.rs"]
mod text;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| attach::fuzzing::attach(bytes));
