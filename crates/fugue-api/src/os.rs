use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use serde::{Deserialize, Serialize};

/// A path or environment variable in JSON. Values that are not UTF-8 are kept as bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged)]
pub enum OsText {
    Text(String),
    Bytes(Vec<u8>),
}

impl From<OsString> for OsText {
    fn from(os: OsString) -> Self {
        os.into_string()
            .map_or_else(|os| Self::Bytes(os.into_vec()), Self::Text)
    }
}

impl From<&OsStr> for OsText {
    fn from(os: &OsStr) -> Self {
        os.to_owned().into()
    }
}

impl From<&OsText> for OsString {
    fn from(text: &OsText) -> Self {
        match text {
            OsText::Text(text) => Self::from(text),
            OsText::Bytes(bytes) => OsStr::from_bytes(bytes).to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_survive_json() {
        for bytes in [
            &b"plain"[..],
            "zw\u{f6}lf".as_bytes(),
            b"not\xff utf-8",
            b"",
        ] {
            let text = OsText::from(OsStr::from_bytes(bytes));
            let json = serde_json::to_string(&text).unwrap();
            let back: OsText = serde_json::from_str(&json).unwrap();
            assert_eq!(OsString::from(&back).as_bytes(), bytes);
        }
    }
}
