//! Defaults that several tools share, for `#[serde(default = …)]`.

pub(crate) fn enabled() -> bool {
    true
}

pub(crate) fn max_output_chars() -> u32 {
    10_000
}

pub(crate) fn timeout_secs() -> f64 {
    300.0
}
