use std::{
    fs::{self, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use fugue_api::{Error, random_bytes};
use rustix::fs::OFlags;

/// 256 random bits in a file that only their owner can read: who has them is who may read that file.
pub struct Token([u8; 32]);

impl Token {
    /// The token in this file, which is made if it is missing.
    pub fn in_file(path: &Path) -> Result<Self, Error> {
        let wrong = |said: String| {
            Error::unavailable(format!("{}: {said}", path.display()))
                .hint("remove it, and a new token is made; clients need the new one then")
        };
        let text = match read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                make(path).and_then(|()| read(path))
            }
            found => found,
        };
        let text = text.map_err(|error| wrong(error.to_string()))?;
        Self::parse(text.trim()).ok_or_else(|| wrong("wanted 64 hexadecimal digits".to_owned()))
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.as_bytes();
        if text.len() != 64 {
            return None;
        }
        let mut bytes = [0; 32];
        for (byte, digits) in bytes.iter_mut().zip(text.chunks(2)) {
            let digits = std::str::from_utf8(digits).ok()?;
            if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
                return None;
            }
            *byte = u8::from_str_radix(digits, 16).ok()?;
        }
        Some(Self(bytes))
    }

    /// Takes the same time however much of it is right, so that it cannot be found out digit by digit.
    pub fn is(&self, shown: &str) -> bool {
        let Some(shown) = Self::parse(shown) else {
            return false;
        };
        let differs = self
            .0
            .iter()
            .zip(shown.0)
            .fold(0, |all, (a, b)| all | (a ^ b));
        std::hint::black_box(differs) == 0
    }
}

/// Refuses a file that others can read, or that is not what it seems.
fn read(path: &Path) -> io::Result<String> {
    let no_follow = OFlags::NOFOLLOW.bits().cast_signed();
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(no_follow)
        .open(path)?;
    let found = file.metadata()?;
    if !found.is_file() || found.uid() != rustix::process::geteuid().as_raw() {
        return Err(io::Error::other("is not a file of yours"));
    }
    if found.mode() & 0o077 != 0 {
        return Err(io::Error::other("can be read by others"));
    }
    let mut text = String::new();
    file.take(4096).read_to_string(&mut text)?;
    Ok(text)
}

/// Whole or not at all, and never over one that another server has just made.
fn make(path: &Path) -> io::Result<()> {
    let bytes: [u8; 32] = random_bytes().map_err(io::Error::other)?;
    let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut draft = PathBuf::from(path).into_os_string();
    draft.push(format!(".{}", std::process::id()));
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&draft)?;
    let made = writeln!(file, "{text}").and_then(|()| fs::hard_link(&draft, path));
    fs::remove_file(&draft)?;
    match made {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_token_is_made_once_and_for_its_owner_only() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        Token::in_file(&path).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        let again = Token::in_file(&path).unwrap();
        assert!(again.is(text.trim()));
        assert!(!again.is(&"0".repeat(64)));
        assert!(!again.is(""));
    }

    #[test]
    fn a_file_that_others_read_or_that_leads_elsewhere_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        Token::in_file(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(
            Token::in_file(&path)
                .err()
                .unwrap()
                .message
                .contains("others")
        );
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(Token::in_file(&link).is_err());
        fs::write(&path, "short\n").unwrap();
        assert!(Token::in_file(&path).err().unwrap().message.contains("64"));
    }
}
